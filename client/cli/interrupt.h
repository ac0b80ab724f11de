// Ctrl-C while a stream runs: cancels it, on the server too, instead of ending
// the program in the middle of a line.
#ifndef HEADRACE_CLIENT_CLI_INTERRUPT_H_
#define HEADRACE_CLIENT_CLI_INTERRUPT_H_

#include <functional>

namespace headrace::cli {

// While it lives, the first SIGINT or SIGTERM calls `cancel` on a thread of its
// own. One at a time.
class InterruptScope {
 public:
  explicit InterruptScope(std::function<void()> cancel);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  bool interrupted() const;

 private:
  struct State;
  State* state_;
};

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_INTERRUPT_H_
