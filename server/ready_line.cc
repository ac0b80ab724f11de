#include "server/ready_line.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "nlohmann/json.hpp"

namespace headrace {

namespace {

constexpr int kPollMilliseconds = 50;

}  // namespace

std::string MakeReadyLine(const Server& server) {
  const ModelInfo& model = server.engine().model();
  nlohmann::ordered_json line = {
      {"event", "serving"},
      {"listen", server.addresses()},
      {"model", model.config.name},
      {"context_length", model.context_length},
      {"numerics", model.numerics == Numerics::kExact ? "exact" : "fast"},
      {"kv_cache_dtype", LayoutOf(model.kv_cache_dtype).name},
      {"threads", model.num_threads},
      {"isa", model.isa},
      {"kv_cache_blocks", server.stats().kv_cache.total_blocks},
      {"build", BuildName()}};
  if (!server.metrics_address().empty()) {
    line["metrics"] = server.metrics_address();
  }
  return line.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

LineWriter::LineWriter(int fd, std::string line)
    : thread_([this, fd, line = std::move(line)] { Run(fd, line); }) {}

LineWriter::~LineWriter() {
  stopping_ = true;
  thread_.join();
}

void LineWriter::Wait(absl::Duration timeout) {
  done_.WaitForNotificationWithTimeout(timeout);
}

// Writes only when the descriptor says that it is ready: a pipe then has room
// for PIPE_BUF bytes, so a line does not block.
void LineWriter::Run(int fd, const std::string& line) {
  std::string_view rest = line;
  while (!rest.empty() && !stopping_) {
    pollfd ready{.fd = fd, .events = POLLOUT};
    const int count = poll(&ready, 1, kPollMilliseconds);
    if (count < 0 && errno != EINTR) break;
    if (count <= 0) continue;
    if ((ready.revents & POLLOUT) == 0) break;  // closed
    const ssize_t written = write(fd, rest.data(), rest.size());
    if (written < 0 && errno != EINTR && errno != EAGAIN) break;
    if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
  }
  done_.Notify();
}

}  // namespace headrace
