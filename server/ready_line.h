// The one line on stdout that says that the server is ready, for whoever
// started it. A closed or full stdout never holds the server up.
#ifndef HEADRACE_SERVER_READY_LINE_H_
#define HEADRACE_SERVER_READY_LINE_H_

#include <atomic>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/server.h"

namespace headrace {

// {"event":"serving","listen":["127.0.0.1:50051"],"model":…}, with a newline;
// shorter than PIPE_BUF unless the model's name is absurd.
std::string MakeReadyLine(const Server& server);

// Writes a line to a file descriptor on a thread of its own, as soon as the
// descriptor takes it.
class LineWriter {
 public:
  LineWriter(int fd, std::string line);
  // Gives up when the line could not be written yet.
  ~LineWriter();

  // Waits until it is written, or cannot be; at most `timeout`.
  void Wait(absl::Duration timeout);

 private:
  void Run(int fd, const std::string& line);

  std::atomic<bool> stopping_{false};
  absl::Notification done_;
  std::thread thread_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_READY_LINE_H_
