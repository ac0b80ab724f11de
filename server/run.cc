#include "server/run.h"

#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/log/log.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "engine/engine.h"
#include "server/code_pages.h"
#include "server/ready_line.h"
#include "server/server.h"

namespace headrace {

namespace {

// The signals that end the server, as something to poll.
class StopSignals {
 public:
  StopSignals() {
    signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC);
  }
  ~StopSignals() { close(fd_); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Waits for a signal, true, or for `other_fd` to become readable.
  bool WaitOr(int other_fd) const {
    while (true) {
      std::array<pollfd, 2> fds = {
          {{.fd = fd_, .events = POLLIN}, {.fd = other_fd, .events = POLLIN}}};
      if (poll(fds.data(), fds.size(), /*timeout=*/-1) <= 0) continue;
      if ((fds[0].revents & POLLIN) != 0) {
        signalfd_siginfo info;
        if (read(fd_, &info, sizeof(info)) == sizeof(info)) {
          LOG(INFO) << "received signal " << info.ssi_signo;
          return true;
        }
      }
      if (fds[1].revents != 0) return false;
    }
  }

 private:
  int fd_;
};

// A thread whose end can be polled.
class BackgroundTask {
 public:
  template <typename Task>
  explicit BackgroundTask(Task task)
      : done_fd_(eventfd(0, EFD_CLOEXEC)),
        thread_([this, task = std::move(task)] {
          task();
          const uint64_t one = 1;
          if (write(done_fd_, &one, sizeof(one)) < 0) {
            LOG(FATAL) << "an eventfd refused a write";
          }
        }) {}
  ~BackgroundTask() {
    thread_.join();
    close(done_fd_);
  }
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  int done_fd() const { return done_fd_; }

 private:
  const int done_fd_;
  std::thread thread_;
};

void ShowProgress(const LoadProgress& progress) {
  std::fputs(
      absl::StrFormat("\r\033[Kloading: %3.0f %% (%s)", 100 * progress.fraction,
                      std::string(progress.stage))
          .c_str(),
      stderr);
  if (progress.fraction >= 1) std::fputs("\r\033[K", stderr);
}

// By itself, glibc keeps ever larger blocks for later once one was freed: tens
// of megabytes for every thread that had a long text to encode.
void ReturnLargeBlocksToTheSystem() {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  // What a stream's chunks took serves its next ones; WatchLoop() gives it
  // back.
  mallopt(M_TRIM_THRESHOLD, 24 << 20);
}

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "headrace-server: %s\n",
               std::string(status.message()).c_str());
  return EXIT_FAILURE;
}

absl::StatusOr<std::unique_ptr<Engine>> Load(EngineOptions options,
                                             const StopSignals& signals) {
  if (isatty(STDERR_FILENO) == 1) options.on_progress = ShowProgress;
  absl::StatusOr<std::unique_ptr<Engine>> engine;
  BackgroundTask load([&] { engine = Engine::Create(std::move(options)); });
  if (signals.WaitOr(load.done_fd())) {
    // Nothing was served and nothing needs to be put away; a load cannot be
    // interrupted.
    std::_Exit(EXIT_SUCCESS);
  }
  return engine;
}

void DrainOnSignal(Server& server, const ServerOptions& options,
                   const StopSignals& signals) {
  const int never_fd = eventfd(0, EFD_CLOEXEC);
  signals.WaitOr(never_fd);
  close(never_fd);
  LOG(INFO) << "draining";
  const BackgroundTask drain(
      [&] { server.Drain(options.drain_notice, options.drain_grace); });
  while (signals.WaitOr(drain.done_fd())) server.Hurry();
}

}  // namespace

int RunServer(ServerOptions options) {
  ReturnLargeBlocksToTheSystem();
  const StopSignals signals;
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Open(options);
  if (!server.ok()) return Complain(server.status());
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Load(options.engine, signals);
  if (!engine.ok()) return Complain(engine.status());
  for (const std::string& warning : (*engine)->model().warnings) {
    LOG(WARNING) << warning;
  }
  (*server)->Serve(*std::move(engine));
  ReleaseCodePages();
  LineWriter ready_line(STDOUT_FILENO, MakeReadyLine(**server));
  ready_line.Wait(absl::Milliseconds(50));
  (*server)->SetReady();
  DrainOnSignal(**server, options, signals);
  server->reset();
  LOG(INFO) << "stopped";
  return EXIT_SUCCESS;
}

}  // namespace headrace
