// headrace-server: flags → ServerOptions → RunServer(), and nothing else.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage_config.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "engine/numerics_options.h"
#include "server/flag_text.h"
#include "server/rope_flags.h"
#include "server/run.h"
#include "server/server.h"
#include "server/server_options.h"
#include "server/standard_descriptors.h"

using headrace::ServerOptions;

// Defaults are those of the options.
static const ServerOptions& Defaults() {
  static const auto& defaults = *new ServerOptions();
  return defaults;
}

ABSL_FLAG(std::string, model, "",
          "A GGUF, safetensors or llama2.c file, or a Hugging Face folder.");
ABSL_FLAG(std::vector<std::string>, listen, Defaults().listen,
          "host:port or unix:path; several with commas or by repeating the "
          "flag. Port 0: one that is free.");
ABSL_FLAG(uint32_t, context_length, 0,
          "Positions that requests may use when they do not ask otherwise. 0: "
          "what the model, with --rope_scaling, serves.");
ABSL_FLAG(int32_t, threads, Defaults().engine.num_threads,
          "Compute threads. 0: what CPU affinity and cgroup allow.");
ABSL_FLAG(int64_t, kv_cache_bytes, Defaults().engine.kv_cache_bytes,
          "Memory for keys and values. 0: from the memory limit.");
ABSL_FLAG(std::string, numerics, "fast", headrace::kNumericsHelp);
ABSL_FLAG(std::string, kv_cache_dtype, "auto", headrace::kKvCacheDtypeHelp);
ABSL_FLAG(int64_t, max_num_batched_tokens, Defaults().engine.max_batch_rows,
          "Tokens of one step at the most.");
ABSL_FLAG(bool, prefix_cache, Defaults().engine.prefix_cache,
          "Reuse the keys and values of equal prompt prefixes.");
ABSL_FLAG(std::string, packed_cache_dir, Defaults().engine.packed_cache_dir,
          "A folder for packed weights: later starts map them instead of "
          "packing again, and servers of one model share their memory. Who may "
          "write there decides what the models compute. Empty: none.");

ABSL_FLAG(std::string, rope_scaling, "",
          "none, linear, ntk, dynamic_ntk, yarn, longrope, llama3, "
          "proportional or auto, for requests that do not ask otherwise. "
          "Empty: what the model's file says.");
ABSL_FLAG(absl::optional<double>, rope_factor, absl::nullopt,
          "How far --rope_scaling stretches the trained length.");
ABSL_FLAG(absl::optional<double>, rope_theta, absl::nullopt,
          "Replaces the base of the rotary encoding.");
ABSL_FLAG(absl::optional<int64_t>, rope_original_max_position_embeddings,
          absl::nullopt, "The trained length.");
ABSL_FLAG(absl::optional<double>, rope_attention_factor, absl::nullopt,
          "yarn, longrope: multiplies cos and sin.");
ABSL_FLAG(absl::optional<double>, rope_beta_fast, absl::nullopt, "yarn.");
ABSL_FLAG(absl::optional<double>, rope_beta_slow, absl::nullopt, "yarn.");
ABSL_FLAG(absl::optional<double>, rope_mscale, absl::nullopt, "yarn.");
ABSL_FLAG(absl::optional<double>, rope_mscale_all_dim, absl::nullopt, "yarn.");
ABSL_FLAG(absl::optional<bool>, rope_truncate, absl::nullopt, "yarn.");
ABSL_FLAG(absl::optional<double>, rope_low_freq_factor, absl::nullopt,
          "llama3.");
ABSL_FLAG(absl::optional<double>, rope_high_freq_factor, absl::nullopt,
          "llama3.");
ABSL_FLAG(absl::optional<double>, rope_partial_rotary_factor, absl::nullopt,
          "proportional.");
ABSL_FLAG(std::vector<std::string>, rope_short_factor, {},
          "longrope: divisors, one per pair, with commas.");
ABSL_FLAG(std::vector<std::string>, rope_long_factor, {},
          "longrope: divisors, one per pair, with commas.");

ABSL_FLAG(int64_t, max_num_seqs, Defaults().max_num_seqs,
          "Sequences that run together.");
ABSL_FLAG(int64_t, max_queue, Defaults().max_queue,
          "Requests that may wait; more are refused with a retry delay.");
ABSL_FLAG(absl::Duration, max_decode_stall, Defaults().max_decode_stall,
          "How long prompts may hold up a step of those that decode.");
ABSL_FLAG(bool, preemption, Defaults().preemption,
          "Suspend running sequences when a request of a higher priority lacks "
          "KV blocks or a place; they go on later, bit for bit.");
ABSL_FLAG(
    int64_t, speculative_ngram, Defaults().speculative_ngram,
    "Tokens guessed per step from what the prompt and the answer have had "
    "before, and computed together where that is faster; the answer is the "
    "same in every bit. 0: none.");
ABSL_FLAG(int64_t, max_capture_bytes, Defaults().max_capture_bytes,
          "Captured rows that may wait for one request's reader.");
ABSL_FLAG(int64_t, max_vector_bytes, Defaults().max_vector_bytes,
          "Vectors and rows that clients may keep on the server, together. 0: "
          "a sixteenth of the memory.");
ABSL_FLAG(absl::Duration, max_vector_ttl, Defaults().max_vector_ttl,
          "How long they may be kept.");
ABSL_FLAG(absl::Duration, max_reader_stall, Defaults().max_reader_stall,
          "How long a client may read nothing while other requests wait for "
          "what its request occupies.");
ABSL_FLAG(absl::Duration, drain_notice, Defaults().drain_notice,
          "How long NOT_SERVING is shown after SIGTERM before new requests are "
          "refused.");
ABSL_FLAG(absl::Duration, drain_grace, Defaults().drain_grace,
          "How long running requests may go on after SIGTERM and the notice.");
ABSL_FLAG(absl::Duration, stall_after, Defaults().stall_after,
          "A step that takes longer makes health say NOT_SERVING.");

ABSL_FLAG(std::string, tls_cert_file, "",
          "PEM file with the server's certificate chain: turns TLS on.");
ABSL_FLAG(std::string, tls_key_file, "", "PEM file with its private key.");
ABSL_FLAG(std::string, tls_client_ca_file, "",
          "PEM file: clients must show a certificate signed by one of these.");
ABSL_FLAG(bool, allow_insecure_remote, Defaults().allow_insecure_remote,
          "Listen beyond loopback without TLS.");
ABSL_FLAG(std::string, metrics_listen, Defaults().metrics_listen,
          "host:port of Prometheus metrics at /metrics. Empty: none.");
ABSL_FLAG(bool, channelz, Defaults().channelz, "Offer gRPC's channelz.");
ABSL_FLAG(absl::Duration, max_connection_age, Defaults().max_connection_age,
          "Ask connections to close after so long.");

static headrace::RopeFlags ReadRopeFlags() {
  return {
      .scaling = absl::GetFlag(FLAGS_rope_scaling),
      .factor = absl::GetFlag(FLAGS_rope_factor),
      .theta = absl::GetFlag(FLAGS_rope_theta),
      .original_max_position_embeddings =
          absl::GetFlag(FLAGS_rope_original_max_position_embeddings),
      .attention_factor = absl::GetFlag(FLAGS_rope_attention_factor),
      .beta_fast = absl::GetFlag(FLAGS_rope_beta_fast),
      .beta_slow = absl::GetFlag(FLAGS_rope_beta_slow),
      .mscale = absl::GetFlag(FLAGS_rope_mscale),
      .mscale_all_dim = absl::GetFlag(FLAGS_rope_mscale_all_dim),
      .truncate = absl::GetFlag(FLAGS_rope_truncate),
      .low_freq_factor = absl::GetFlag(FLAGS_rope_low_freq_factor),
      .high_freq_factor = absl::GetFlag(FLAGS_rope_high_freq_factor),
      .partial_rotary_factor = absl::GetFlag(FLAGS_rope_partial_rotary_factor),
      .short_factor = absl::GetFlag(FLAGS_rope_short_factor),
      .long_factor = absl::GetFlag(FLAGS_rope_long_factor),
      .context_length = absl::GetFlag(FLAGS_context_length),
  };
}

static absl::StatusOr<ServerOptions> ReadOptions() {
  ServerOptions options;
  options.engine.model_path = absl::GetFlag(FLAGS_model);
  if (options.engine.model_path.empty()) {
    return absl::InvalidArgumentError("--model is missing; see --help");
  }
  const absl::Status numerics = headrace::ReadNumerics(
      absl::GetFlag(FLAGS_numerics), absl::GetFlag(FLAGS_kv_cache_dtype),
      options.engine);
  if (!numerics.ok()) return numerics;
  options.engine.num_threads = absl::GetFlag(FLAGS_threads);
  options.engine.kv_cache_bytes = absl::GetFlag(FLAGS_kv_cache_bytes);
  options.engine.max_batch_rows = absl::GetFlag(FLAGS_max_num_batched_tokens);
  options.engine.prefix_cache = absl::GetFlag(FLAGS_prefix_cache);
  options.engine.packed_cache_dir = absl::GetFlag(FLAGS_packed_cache_dir);
  absl::StatusOr<headrace::RopeRequest> rope =
      headrace::ToRopeRequest(ReadRopeFlags());
  if (!rope.ok()) return rope.status();
  options.engine.rope = *std::move(rope);

  options.listen = absl::GetFlag(FLAGS_listen);
  options.tls = {.certificate_file = absl::GetFlag(FLAGS_tls_cert_file),
                 .private_key_file = absl::GetFlag(FLAGS_tls_key_file),
                 .client_ca_file = absl::GetFlag(FLAGS_tls_client_ca_file)};
  options.allow_insecure_remote = absl::GetFlag(FLAGS_allow_insecure_remote);
  options.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.channelz = absl::GetFlag(FLAGS_channelz);
  options.max_connection_age = absl::GetFlag(FLAGS_max_connection_age);
  options.max_num_seqs = absl::GetFlag(FLAGS_max_num_seqs);
  options.max_queue = absl::GetFlag(FLAGS_max_queue);
  options.speculative_ngram = absl::GetFlag(FLAGS_speculative_ngram);
  options.preemption = absl::GetFlag(FLAGS_preemption);
  options.max_decode_stall = absl::GetFlag(FLAGS_max_decode_stall);
  options.max_capture_bytes = absl::GetFlag(FLAGS_max_capture_bytes);
  options.max_vector_bytes = absl::GetFlag(FLAGS_max_vector_bytes);
  options.max_vector_ttl = absl::GetFlag(FLAGS_max_vector_ttl);
  options.max_reader_stall = absl::GetFlag(FLAGS_max_reader_stall);
  options.drain_notice = absl::GetFlag(FLAGS_drain_notice);
  options.drain_grace = absl::GetFlag(FLAGS_drain_grace);
  options.stall_after = absl::GetFlag(FLAGS_stall_after);
  return options;
}

// Parses all flags; exits on an unknown one. Returns what is left over.
static std::vector<char*> ParseFlags(std::vector<std::string> args) {
  absl::FlagsUsageConfig config;
  config.version_string = [] { return headrace::BuildName() + "\n"; };
  absl::SetFlagsUsageConfig(config);
  static auto& kept =
      *new std::vector<std::string>(headrace::JoinRepeatedFlag(args, "listen"));
  std::vector<char*> pointers;
  for (std::string& arg : kept) pointers.push_back(arg.data());
  return absl::ParseCommandLine(static_cast<int>(pointers.size()),
                                pointers.data());
}

static int Fail(const std::string& message) {
  std::fprintf(stderr, "headrace-server: %s\n", message.c_str());
  return EXIT_FAILURE;
}

// Runs before the libraries are initialized.
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const kBeforeLibraries)() =
    headrace::FillClosedStandardDescriptors;

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv, argv + argc);
  if (headrace::AsksForHelp(args)) {
    std::fputs(headrace::FlagHelp(
                   "headrace-server --model PATH [--listen 127.0.0.1:50051]\n"
                   "Serves a decoder transformer over gRPC.",
                   "server/main.cc")
                   .c_str(),
               stdout);
    return EXIT_SUCCESS;
  }
  // Debian builds Abseil with it, and every lock that gRPC takes pays for it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const std::vector<char*> rest = ParseFlags(args);
  absl::InitializeLog();
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfo);
  if (rest.size() > 1) {
    return Fail(std::string("unexpected argument: ") + rest[1]);
  }
  absl::StatusOr<ServerOptions> options = ReadOptions();
  if (!options.ok()) return Fail(std::string(options.status().message()));
  return headrace::RunServer(*std::move(options));
}
