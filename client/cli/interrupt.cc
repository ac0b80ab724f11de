#include "client/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

namespace headrace::cli {
namespace {

// Written by the handler; the only thing that a handler may do.
int g_wake_pipe[2] = {-1, -1};

void OnSignal(int /*signal*/) {
  const char byte = 's';
  [[maybe_unused]] const ssize_t written = write(g_wake_pipe[1], &byte, 1);
}

}  // namespace

struct InterruptScope::State {
  std::function<void()> cancel;
  std::atomic<bool> interrupted{false};
  struct sigaction old_int = {};
  struct sigaction old_term = {};
  std::thread watcher;
};

InterruptScope::InterruptScope(std::function<void()> cancel)
    : state_(new State) {
  state_->cancel = std::move(cancel);
  if (pipe(g_wake_pipe) != 0) return;
  state_->watcher = std::thread([state = state_] {
    char byte = 0;
    if (read(g_wake_pipe[0], &byte, 1) == 1 && byte == 's') {
      state->interrupted.store(true);
      state->cancel();
    }
  });
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  sigaction(SIGINT, &action, &state_->old_int);
  sigaction(SIGTERM, &action, &state_->old_term);
}

InterruptScope::~InterruptScope() {
  if (state_->watcher.joinable()) {
    sigaction(SIGINT, &state_->old_int, nullptr);
    sigaction(SIGTERM, &state_->old_term, nullptr);
    const char byte = 'e';
    [[maybe_unused]] const ssize_t written = write(g_wake_pipe[1], &byte, 1);
    state_->watcher.join();
    close(g_wake_pipe[0]);
    close(g_wake_pipe[1]);
  }
  delete state_;
}

bool InterruptScope::interrupted() const { return state_->interrupted.load(); }

}  // namespace headrace::cli
