// Counts how deep a recursion is, so that it can be refused before the stack
// ends.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_DEPTH_GUARD_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_DEPTH_GUARD_H_

namespace headrace {

// One level deeper for as long as it lives.
class DepthGuard {
 public:
  explicit DepthGuard(int& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_DEPTH_GUARD_H_
