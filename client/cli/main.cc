// headrace: the command line. Flags to CliOptions, then one command.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cli/cli_options.h"
#include "client/cli/command.h"
#include "client/cli/text_file.h"
#include "client/cpp/errors.h"
#include "client/cpp/memory.h"
#include "google/protobuf/stubs/logging.h"

template <typename T>
using Optional = std::optional<T>;

// Connection.
ABSL_FLAG(std::string, server, "127.0.0.1:50051", "Server: host:port.");
ABSL_FLAG(bool, tls, false, "Use TLS.");
ABSL_FLAG(std::string, tls_ca_file, "", "PEM roots; empty: the system's.");
ABSL_FLAG(std::string, tls_cert_file, "", "PEM certificate chain, for mTLS.");
ABSL_FLAG(std::string, tls_key_file, "", "PEM private key, for mTLS.");
ABSL_FLAG(double, timeout, 0, "Seconds for a call; 0: no limit.");
ABSL_FLAG(std::string, model, "", "Model id; empty: the only one.");
// Prompt.
ABSL_FLAG(Optional<std::string>, prompt, std::nullopt, "Prompt text.");
ABSL_FLAG(std::string, prompt_file, "", "File with the prompt text.");
ABSL_FLAG(std::string, text, "", "context-report: file with the text.");
ABSL_FLAG(std::string, tokens, "", "Prompt as token ids: 1,2,3.");
ABSL_FLAG(Optional<bool>, add_special_tokens, std::nullopt,
          "BOS and the like; unset: as the tokenizer says.");
ABSL_FLAG(bool, parse_special, false, "Recognise control tokens in the text.");
ABSL_FLAG(std::string, system, "", "chat: the system message.");
// Sampling; unset: the server's defaults.
ABSL_FLAG(Optional<double>, temperature, std::nullopt, "0 is greedy.");
ABSL_FLAG(Optional<int64_t>, top_k, std::nullopt, "0: off.");
ABSL_FLAG(Optional<double>, top_p, std::nullopt, "In (0, 1].");
ABSL_FLAG(Optional<double>, min_p, std::nullopt, "In [0, 1].");
ABSL_FLAG(Optional<double>, typical_p, std::nullopt, "In (0, 1].");
ABSL_FLAG(Optional<double>, repetition_penalty, std::nullopt, "> 0.");
ABSL_FLAG(Optional<double>, presence_penalty, std::nullopt, "Any number.");
ABSL_FLAG(Optional<double>, frequency_penalty, std::nullopt, "Any number.");
ABSL_FLAG(std::string, seed, "", "0 to 18446744073709551615; unset: random.");
ABSL_FLAG(Optional<uint32_t>, n, std::nullopt, "Choices.");
ABSL_FLAG(int, logprobs, -1, "Most likely tokens to report; -1: none.");
// Stop.
ABSL_FLAG(Optional<uint32_t>, max_tokens, std::nullopt,
          "Tokens to generate; unset: until an end or the context is full.");
ABSL_FLAG(uint32_t, min_tokens, 0, "No end before so many tokens.");
ABSL_FLAG(std::vector<std::string>, stop, {}, "Stop strings, by commas.");
ABSL_FLAG(bool, ignore_eos, false, "Sample on through end tokens.");
ABSL_FLAG(Optional<double>, time_limit, std::nullopt, "Seconds.");
// Context extension.
ABSL_FLAG(std::string, rope_scaling, "",
          "none, auto, linear, ntk, dynamic_ntk, yarn, llama3, proportional.");
ABSL_FLAG(Optional<double>, rope_factor, std::nullopt, ">= 1.");
ABSL_FLAG(Optional<double>, factor, std::nullopt, "The same as rope_factor.");
ABSL_FLAG(Optional<double>, rope_theta, std::nullopt, "Replaces the base.");
ABSL_FLAG(Optional<double>, rope_attention_factor, std::nullopt, "yarn.");
ABSL_FLAG(Optional<double>, rope_beta_fast, std::nullopt, "yarn.");
ABSL_FLAG(Optional<double>, rope_beta_slow, std::nullopt, "yarn.");
ABSL_FLAG(Optional<double>, rope_low_freq_factor, std::nullopt, "llama3.");
ABSL_FLAG(Optional<double>, rope_high_freq_factor, std::nullopt, "llama3.");
ABSL_FLAG(Optional<double>, rope_partial_rotary_factor, std::nullopt,
          "proportional.");
ABSL_FLAG(Optional<uint32_t>, rope_original_max_position_embeddings,
          std::nullopt, "yarn, llama3.");
ABSL_FLAG(uint32_t, max_context, 0, "Positions to use; 0: what it serves.");
ABSL_FLAG(std::vector<std::string>, methods, {},
          "context-report: scaling methods to compare.");
// Capture.
ABSL_FLAG(std::string, hooks, "resid_post", "Hooks, by commas.");
ABSL_FLAG(std::string, layers, "all", "all, or 0,-1,4:8.");
ABSL_FLAG(std::string, heads, "all",
          "Of attn_scores and attn_probs: all, or 0,3,4:8.");
ABSL_FLAG(uint32_t, top_keys, 0,
          "Of attn_scores and attn_probs: only the largest so many keys.");
ABSL_FLAG(std::string, rows, "prompt",
          "all, prompt, generated, last, or positions: 0,-1,4:8.");
ABSL_FLAG(std::string, dtype, "f32", "On the wire: f32, bf16, f16, int8.");
ABSL_FLAG(bool, compress, false, "Compress rows on the wire (zstd).");
ABSL_FLAG(std::string, out, "", "trace: the .npz file to write.");
ABSL_FLAG(std::string, html, "",
          "lens, trace, context-report: the page to write.");
ABSL_FLAG(bool, verify, false, "trace: repeat the residual identities.");
// Vectors.
ABSL_FLAG(std::string, features, "",
          "vectors import: rows of a sparse autoencoder's W_dec: 0,17.");
ABSL_FLAG(Optional<double>, time_to_live, std::nullopt,
          "vectors import: seconds; unset: the server's default.");
// Bench.
ABSL_FLAG(std::vector<std::string>, concurrency, {},
          "bench: clients at once, as in 1 or 1,4,16: a run for each.");
ABSL_FLAG(
    std::vector<std::string>, arrival_rates, {},
    "bench: requests per second that arrive whether the server keeps up or "
    "not (a Poisson process), as in 2 or 1,2,4: a run for each.");
ABSL_FLAG(uint64_t, arrival_seed, 1, "bench: of the arrivals.");
ABSL_FLAG(int, requests, 8, "bench: requests of a run.");
ABSL_FLAG(int, prompt_tokens, 64, "bench: tokens of each prompt.");
ABSL_FLAG(bool, json, false, "One JSON object per line.");

namespace headrace::cli {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  absl::Status (*run)(client::Client&, const CliOptions&);
  size_t arguments;  // that may follow the command, beside flags
};

constexpr Command kCommands[] = {
    {"generate", "text from a prompt, as it comes", RunGenerate, 1},
    {"chat", "a conversation that keeps its history", RunChat, 0},
    {"trace", "activations of the residual stream to a numpy file", RunTrace,
     1},
    {"lens", "what each layer would predict, in the terminal or as a page",
     RunLens, 1},
    {"estimate", "what a trace would produce, before running it", RunEstimate,
     1},
    {"context-report", "loss by position under each context extension",
     RunContextReport, 1},
    {"tokenize", "text to token ids", RunTokenize, 1},
    {"detokenize", "token ids to text", RunDetokenize, 1},
    {"models", "what the server serves", RunModels, 0},
    {"hooks", "where the model can be looked into", RunHooks, 0},
    {"vectors", "import FILE: control vectors or SAE directions to the server",
     RunVectors, 2},
    {"health", "exit status 0 when the server is serving", RunHealth, 1},
    {"bench", "latency and throughput of the server", RunBench, 0},
};

std::string Usage() {
  std::string usage =
      "headrace COMMAND [--server HOST:PORT] [flags]\n\nCommands:\n";
  for (const Command& command : kCommands) {
    absl::StrAppend(&usage, "  ", std::string(command.name),
                    std::string(16 - command.name.size(), ' '),
                    std::string(command.summary), "\n");
  }
  absl::StrAppend(
      &usage,
      "\nExamples:\n"
      "  headrace generate --prompt 'Once upon a time' --max_tokens 32\n"
      "  headrace trace --prompt 'Hello' --hooks resid_post,attn_out "
      "--out rows.npz\n");
  return usage;
}

BenchOptions BenchFromFlags() {
  return {.concurrency = absl::GetFlag(FLAGS_concurrency),
          .arrival_rates = absl::GetFlag(FLAGS_arrival_rates),
          .arrival_seed = absl::GetFlag(FLAGS_arrival_seed),
          .requests = absl::GetFlag(FLAGS_requests),
          .prompt_tokens = absl::GetFlag(FLAGS_prompt_tokens)};
}

CliOptions OptionsFromFlags(std::vector<std::string> positional) {
  CliOptions o;
  o.connection = {.server = absl::GetFlag(FLAGS_server),
                  .tls = absl::GetFlag(FLAGS_tls),
                  .tls_ca_file = absl::GetFlag(FLAGS_tls_ca_file),
                  .tls_cert_file = absl::GetFlag(FLAGS_tls_cert_file),
                  .tls_key_file = absl::GetFlag(FLAGS_tls_key_file),
                  .timeout_seconds = absl::GetFlag(FLAGS_timeout)};
  o.model = absl::GetFlag(FLAGS_model);
  const std::string text_file = absl::GetFlag(FLAGS_text);
  o.prompt = {
      .text = absl::GetFlag(FLAGS_prompt),
      .file = text_file.empty() ? absl::GetFlag(FLAGS_prompt_file) : text_file,
      .tokens = absl::GetFlag(FLAGS_tokens),
      .add_special_tokens = absl::GetFlag(FLAGS_add_special_tokens),
      .parse_special = absl::GetFlag(FLAGS_parse_special)};
  o.sampling = {.temperature = absl::GetFlag(FLAGS_temperature),
                .top_p = absl::GetFlag(FLAGS_top_p),
                .min_p = absl::GetFlag(FLAGS_min_p),
                .typical_p = absl::GetFlag(FLAGS_typical_p),
                .repetition_penalty = absl::GetFlag(FLAGS_repetition_penalty),
                .presence_penalty = absl::GetFlag(FLAGS_presence_penalty),
                .frequency_penalty = absl::GetFlag(FLAGS_frequency_penalty),
                .top_k = absl::GetFlag(FLAGS_top_k),
                .seed = absl::GetFlag(FLAGS_seed),
                .n = absl::GetFlag(FLAGS_n)};
  o.stop = {.max_tokens = absl::GetFlag(FLAGS_max_tokens),
            .min_tokens = absl::GetFlag(FLAGS_min_tokens),
            .stop = absl::GetFlag(FLAGS_stop),
            .ignore_eos = absl::GetFlag(FLAGS_ignore_eos),
            .time_limit = absl::GetFlag(FLAGS_time_limit)};
  const Optional<double> factor = absl::GetFlag(FLAGS_factor);
  o.rope = {
      .scaling = absl::GetFlag(FLAGS_rope_scaling),
      .factor = factor ? factor : absl::GetFlag(FLAGS_rope_factor),
      .theta = absl::GetFlag(FLAGS_rope_theta),
      .attention_factor = absl::GetFlag(FLAGS_rope_attention_factor),
      .beta_fast = absl::GetFlag(FLAGS_rope_beta_fast),
      .beta_slow = absl::GetFlag(FLAGS_rope_beta_slow),
      .low_freq_factor = absl::GetFlag(FLAGS_rope_low_freq_factor),
      .high_freq_factor = absl::GetFlag(FLAGS_rope_high_freq_factor),
      .partial_rotary_factor = absl::GetFlag(FLAGS_rope_partial_rotary_factor),
      .original_max_position_embeddings =
          absl::GetFlag(FLAGS_rope_original_max_position_embeddings),
      .max_context = absl::GetFlag(FLAGS_max_context)};
  o.capture = {.hooks = absl::GetFlag(FLAGS_hooks),
               .layers = absl::GetFlag(FLAGS_layers),
               .heads = absl::GetFlag(FLAGS_heads),
               .top_keys = absl::GetFlag(FLAGS_top_keys),
               .rows = absl::GetFlag(FLAGS_rows),
               .dtype = absl::GetFlag(FLAGS_dtype),
               .compress = absl::GetFlag(FLAGS_compress),
               .out = absl::GetFlag(FLAGS_out),
               .verify = absl::GetFlag(FLAGS_verify)};
  o.vectors = {.features = absl::GetFlag(FLAGS_features),
               .time_to_live = absl::GetFlag(FLAGS_time_to_live)};
  o.bench = BenchFromFlags();
  o.system = absl::GetFlag(FLAGS_system);
  o.logprobs = absl::GetFlag(FLAGS_logprobs);
  o.json = absl::GetFlag(FLAGS_json);
  o.html = absl::GetFlag(FLAGS_html);
  o.methods = absl::GetFlag(FLAGS_methods);
  o.positional = std::move(positional);
  return o;
}

absl::StatusOr<std::unique_ptr<client::Client>> Connect(
    const ConnectionOptions& connection) {
  client::ClientOptions options;
  options.address = connection.server;
  options.use_tls = connection.tls;
  if (!(connection.timeout_seconds >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--timeout must be at least 0; is ", connection.timeout_seconds));
  }
  if (connection.timeout_seconds > 0) {
    options.timeout = absl::Seconds(connection.timeout_seconds);
  }
  struct Pem {
    const std::string& file;
    std::string& text;
  };
  for (const Pem& pem :
       {Pem{connection.tls_ca_file, options.tls.root_certificates},
        Pem{connection.tls_cert_file, options.tls.certificate_chain},
        Pem{connection.tls_key_file, options.tls.private_key}}) {
    if (pem.file.empty()) continue;
    absl::StatusOr<std::string> text = ReadTextFile(pem.file);
    if (!text.ok()) return text.status();
    if (text->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(pem.file, " is empty"));
    }
    pem.text = *std::move(text);
  }
  return client::Client::Create(std::move(options));
}

// What a command wrote must have arrived, or the exit status says so. A reader
// that went away has seen enough.
absl::Status FlushOutput() {
  if (std::cout << std::flush) return absl::OkStatus();
  // What was lost is lost; another byte says why.
  std::cout.clear();
  errno = 0;
  std::cout << '\n' << std::flush;
  if (errno == EPIPE) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("cannot write the output: ", std::strerror(errno)));
}

absl::Status Run(const Command& command, const CliOptions& options) {
  if (options.positional.size() > command.arguments) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unexpected argument: ", options.positional[command.arguments]));
  }
  const auto client = Connect(options.connection);
  return client.ok() ? command.run(**client, options) : client.status();
}

int Main(const std::vector<char*>& arguments) {
  const std::string name = arguments.size() > 1 ? arguments[1] : "help";
  const auto* command =
      std::find_if(std::begin(kCommands), std::end(kCommands),
                   [&](const Command& c) { return c.name == name; });
  if (command == std::end(kCommands)) {
    (name == "help" ? std::cout : std::cerr)
        << (name == "help" ? "" : "headrace: unknown command " + name + "\n")
        << Usage();
    return name == "help" ? 0 : 2;
  }
  const CliOptions options = OptionsFromFlags(
      std::vector<std::string>(arguments.begin() + 2, arguments.end()));
  absl::Status status = Run(*command, options);
  if (status.ok()) status = FlushOutput();
  if (status.ok()) return 0;
  std::cerr << "headrace " << name << ": " << client::Describe(status) << '\n';
  return 1;
}

}  // namespace
}  // namespace headrace::cli

// Else gRPC, while it is loaded, gets the number of an output that was closed.
// System calls themselves: a sanitizer may not be ready for others yet.
static void FillClosedOutputs() {
  while (syscall(SYS_fcntl, STDOUT_FILENO, F_GETFD) < 0 ||
         syscall(SYS_fcntl, STDERR_FILENO, F_GETFD) < 0) {
    if (syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY) < 0) return;
  }
}
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const kBeforeLibraries)() = FillClosedOutputs;

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);  // a reader that goes away is no crash
  headrace::client::KeepFreedMemory();
  // Debian builds Abseil with it, and every lock that gRPC takes pays for it.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  google::protobuf::SetLogHandler(nullptr);  // the server says what is wrong
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "client/cli/main.cc");
  };
  absl::SetFlagsUsageConfig(config);
  absl::SetProgramUsageMessage(headrace::cli::Usage());
  return headrace::cli::Main(absl::ParseCommandLine(argc, argv));
}
