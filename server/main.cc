// headrace-server: flags to ServerOptions, then run; nothing else.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "server/server.h"

template <typename T>
using Optional = std::optional<T>;

ABSL_FLAG(std::string, model, "",
          "Model: a .gguf or llama2.c .bin file, or a folder with config.json. "
          "Required.");
ABSL_FLAG(std::vector<std::string>, listen, {"127.0.0.1:50051"},
          "Addresses, by commas; port 0 takes any free one.");
ABSL_FLAG(uint32_t, context_length, 0,
          "Positions a request may use; 0: what the model serves.");
ABSL_FLAG(int, threads, 0,
          "Compute threads; 0: what affinity and the cgroup allow.");
ABSL_FLAG(int64_t, kv_cache_bytes, 0,
          "Memory for keys and values; 0: from the memory limit.");
ABSL_FLAG(std::string, numerics, "fast",
          "fast: int8 activations; exact: float32 on dequantised weights.");
// Context extension of requests that do not ask for their own.
ABSL_FLAG(std::string, rope_scaling, "",
          "none, auto, linear, ntk, dynamic_ntk, yarn, llama3, proportional; "
          "empty: as the model's file says.");
ABSL_FLAG(Optional<double>, rope_factor, std::nullopt, "At least 1.");
ABSL_FLAG(Optional<double>, rope_theta, std::nullopt, "Replaces the base.");
ABSL_FLAG(Optional<double>, rope_attention_factor, std::nullopt, "yarn.");
ABSL_FLAG(Optional<double>, rope_beta_fast, std::nullopt, "yarn.");
ABSL_FLAG(Optional<double>, rope_beta_slow, std::nullopt, "yarn.");
ABSL_FLAG(Optional<double>, rope_low_freq_factor, std::nullopt, "llama3.");
ABSL_FLAG(Optional<double>, rope_high_freq_factor, std::nullopt, "llama3.");
ABSL_FLAG(Optional<double>, rope_partial_rotary_factor, std::nullopt,
          "proportional.");
ABSL_FLAG(Optional<int64_t>, rope_original_max_position_embeddings,
          std::nullopt, "yarn, llama3: positions before extension.");
// Batching.
ABSL_FLAG(int64_t, max_num_seqs, 64, "Sequences that run together.");
ABSL_FLAG(int64_t, max_num_batched_tokens, 512, "Rows of one step.");
ABSL_FLAG(int64_t, max_queue, 256, "Requests that may wait.");
ABSL_FLAG(bool, prefix_cache, true, "Reuse keys and values of equal prefixes.");
ABSL_FLAG(int64_t, max_capture_bytes, 32 << 20,
          "Captured rows that may wait for their reader, per request.");
// Edge.
ABSL_FLAG(std::string, tls_cert_file, "", "PEM certificate chain: use TLS.");
ABSL_FLAG(std::string, tls_key_file, "", "PEM private key.");
ABSL_FLAG(std::string, tls_client_ca_file, "",
          "PEM roots: clients must have a certificate (mTLS).");
ABSL_FLAG(bool, allow_insecure_remote, false,
          "Listen on other than loopback addresses without TLS.");
ABSL_FLAG(absl::Duration, drain_grace, absl::Seconds(30),
          "How long running requests may go on after SIGTERM.");
ABSL_FLAG(absl::Duration, drain_notice, absl::ZeroDuration(),
          "How long NOT_SERVING is shown before new requests are refused.");
ABSL_FLAG(std::string, metrics_listen, "",
          "host:port of Prometheus metrics; empty: none.");
ABSL_FLAG(bool, channelz, false, "Serve gRPC's channelz.");

namespace headrace {
namespace {

absl::Status SetRope(RopeRequest& rope) {
  rope.max_context = absl::GetFlag(FLAGS_context_length);
  rope.rope_theta = absl::GetFlag(FLAGS_rope_theta);
  const std::string name = absl::GetFlag(FLAGS_rope_scaling);
  if (name.empty()) {
    return absl::GetFlag(FLAGS_rope_factor)
               ? absl::InvalidArgumentError(
                     "--rope_factor needs --rope_scaling")
               : absl::OkStatus();
  }
  if (name == "none" || name == "auto") {
    rope.kind =
        name == "none" ? RopeRequest::Kind::kNone : RopeRequest::Kind::kAuto;
    return absl::OkStatus();
  }
  const std::optional<RopeType> type =
      RopeTypeFromName(name == "dynamic_ntk" ? "dynamic" : name);
  if (!type.has_value() || *type == RopeType::kDefault) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rope_scaling is ", name,
        "; it takes none, auto, linear, ntk, dynamic_ntk, yarn, llama3 or "
        "proportional"));
  }
  rope.kind = RopeRequest::Kind::kScaling;
  RopeParams& scaling = rope.scaling;
  scaling.type = *type;
  scaling.factor = absl::GetFlag(FLAGS_rope_factor);
  scaling.attention_factor = absl::GetFlag(FLAGS_rope_attention_factor);
  scaling.beta_fast = absl::GetFlag(FLAGS_rope_beta_fast);
  scaling.beta_slow = absl::GetFlag(FLAGS_rope_beta_slow);
  scaling.low_freq_factor = absl::GetFlag(FLAGS_rope_low_freq_factor);
  scaling.high_freq_factor = absl::GetFlag(FLAGS_rope_high_freq_factor);
  scaling.partial_rotary_factor =
      absl::GetFlag(FLAGS_rope_partial_rotary_factor);
  scaling.original_max_position_embeddings =
      absl::GetFlag(FLAGS_rope_original_max_position_embeddings);
  return absl::OkStatus();
}

absl::Status SetEngine(EngineOptions& engine) {
  engine.model_path = absl::GetFlag(FLAGS_model);
  if (engine.model_path.empty()) {
    return absl::InvalidArgumentError("--model is required");
  }
  const std::string numerics = absl::GetFlag(FLAGS_numerics);
  if (numerics != "exact" && numerics != "fast") {
    return absl::InvalidArgumentError(
        absl::StrCat("--numerics is ", numerics, "; it takes exact or fast"));
  }
  engine.numerics = numerics == "exact" ? Numerics::kExact : Numerics::kFast;
  engine.num_threads = absl::GetFlag(FLAGS_threads);
  engine.kv_cache_bytes = absl::GetFlag(FLAGS_kv_cache_bytes);
  engine.max_batch_rows = absl::GetFlag(FLAGS_max_num_batched_tokens);
  engine.prefix_cache = absl::GetFlag(FLAGS_prefix_cache);
  if (isatty(STDERR_FILENO) != 0) {
    engine.on_progress = [](const LoadProgress& progress) {
      std::fprintf(stderr, "\r%-12s %3.0f %%%s",
                   std::string(progress.stage).c_str(), 100 * progress.fraction,
                   progress.fraction >= 1 ? "\n" : "");
    };
  }
  return SetRope(engine.rope);
}

absl::StatusOr<ServerOptions> OptionsFromFlags() {
  ServerOptions options;
  if (absl::Status status = SetEngine(options.engine); !status.ok()) {
    return status;
  }
  options.listen = absl::GetFlag(FLAGS_listen);
  options.tls = {.certificate_file = absl::GetFlag(FLAGS_tls_cert_file),
                 .private_key_file = absl::GetFlag(FLAGS_tls_key_file),
                 .client_ca_file = absl::GetFlag(FLAGS_tls_client_ca_file)};
  options.allow_insecure_remote = absl::GetFlag(FLAGS_allow_insecure_remote);
  options.batching.batcher.limits.max_batch_rows =
      options.engine.max_batch_rows;
  options.batching.batcher.limits.max_num_seqs = std::min(
      absl::GetFlag(FLAGS_max_num_seqs), options.engine.max_batch_rows);
  options.batching.max_queue = absl::GetFlag(FLAGS_max_queue);
  options.max_ring_bytes = absl::GetFlag(FLAGS_max_capture_bytes);
  options.drain_grace = absl::GetFlag(FLAGS_drain_grace);
  options.drain_notice = absl::GetFlag(FLAGS_drain_notice);
  options.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.channelz = absl::GetFlag(FLAGS_channelz);
  options.build = "headrace " HEADRACE_VERSION;
  return options;
}

// One line, whole, for whoever waits for it. A reader that has gone, or does
// not read, never stops the server.
void AnnounceServing(const Server& server) {
  const ModelInfo& model = server.model();
  const nlohmann::ordered_json line = {
      {"event", "serving"},
      {"listen", server.addresses()},
      {"model", model.config.name},
      {"context_length", model.context_length},
      {"numerics", model.numerics == Numerics::kExact ? "exact" : "fast"},
      {"threads", model.num_threads},
      {"isa", model.isa},
      {"build", "headrace " HEADRACE_VERSION},
      {"pid", getpid()}};
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
      "\n";
  [[maybe_unused]] const ssize_t written =
      write(STDOUT_FILENO, text.data(), text.size());
}

// Waits for SIGTERM or SIGINT on a thread of its own. Before the server serves
// there is nothing to drain: the process ends at once.
class StopSignal {
 public:
  explicit StopSignal(const sigset_t& signals)
      : thread_([this, signals] {
          int signal = 0;
          sigwait(&signals, &signal);
          if (!serving_) _exit(0);
          stop_.Notify();
        }) {
    thread_.detach();
  }
  void Wait() {
    serving_ = true;
    stop_.WaitForNotification();
  }

 private:
  std::atomic<bool> serving_{false};
  absl::Notification stop_;
  std::thread thread_;
};

int Run(StopSignal& stop) {
  absl::StatusOr<ServerOptions> options = OptionsFromFlags();
  if (!options.ok()) {
    std::cerr << "headrace-server: " << options.status().message() << '\n';
    return 2;
  }
  auto server = Server::Start(*std::move(options));
  if (!server.ok()) {
    std::cerr << "headrace-server: " << server.status().message() << '\n';
    return 1;
  }
  AnnounceServing(**server);
  stop.Wait();
  (*server)->Drain();
  return 0;
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  // Blocked before any thread exists, so that sigwait alone takes them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  absl::SetProgramUsageMessage(
      "Serves a language model over gRPC.\n"
      "  headrace-server --model model.gguf [--listen 127.0.0.1:50051]");
  absl::ParseCommandLine(argc, argv);
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfo);
  absl::InitializeLog();
  // Never destroyed: its thread may be the last to run.
  static auto& stop = *new headrace::StopSignal(signals);
  return headrace::Run(stop);
}
