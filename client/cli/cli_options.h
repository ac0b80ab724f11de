// What the command line said, for every command. Flags are defined in main.cc
// only; unset means unset, the server's defaults are the only ones.
#ifndef HEADRACE_CLIENT_CLI_CLI_OPTIONS_H_
#define HEADRACE_CLIENT_CLI_CLI_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace::cli {

struct ConnectionOptions {
  std::string server;
  bool tls = false;
  std::string tls_ca_file;
  std::string tls_cert_file;
  std::string tls_key_file;
  double timeout_seconds = 0;  // 0: none
};

struct PromptOptions {
  std::optional<std::string> text;
  std::string file;
  std::string tokens;  // "1,2,3"
  std::optional<bool> add_special_tokens;
  bool parse_special = false;
};

struct SamplingOptions {
  std::optional<double> temperature, top_p, min_p, typical_p;
  std::optional<double> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int64_t> top_k;
  std::string seed;  // digits; parsed whole, so that all 64 bits survive
  std::optional<uint32_t> n;
};

struct StopOptions {
  std::optional<uint32_t> max_tokens;
  uint32_t min_tokens = 0;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  std::optional<double> time_limit;
};

struct RopeOptions {
  std::string scaling;  // "none", "linear", … ; empty: unset
  std::optional<double> factor, theta, attention_factor, beta_fast, beta_slow;
  std::optional<double> low_freq_factor, high_freq_factor;
  std::optional<double> partial_rotary_factor;
  std::optional<uint32_t> original_max_position_embeddings;
  uint32_t max_context = 0;
};

struct CaptureOptions {
  std::string hooks;   // "resid_post,attn_out"
  std::string layers;  // "all", "0,5,-1", "3:9"
  std::string heads;   // of hooks with rows by head: "all", "0,3", "0:4"
  uint32_t top_keys = 0;
  std::string rows;   // "all", "prompt", "generated", "last", "0,4,-1", "0:64"
  std::string dtype;  // "f32", "bf16"
  bool compress = false;
  std::string out;
  bool verify = false;
};

struct VectorOptions {
  std::string features;  // of a sparse autoencoder: "0,17"
  std::optional<double> time_to_live;
};

struct BenchOptions {
  // One run for each; 1 when neither is given.
  std::vector<std::string> concurrency;
  std::vector<std::string> arrival_rates;
  uint64_t arrival_seed = 1;
  int requests = 8;  // of a run
  int prompt_tokens = 64;
};

struct CliOptions {
  ConnectionOptions connection;
  std::string model;
  PromptOptions prompt;
  SamplingOptions sampling;
  StopOptions stop;
  RopeOptions rope;
  CaptureOptions capture;
  VectorOptions vectors;
  BenchOptions bench;
  std::string system;  // chat: the system message
  int logprobs = -1;   // most likely tokens; -1: no log probabilities
  bool json = false;
  std::string html;  // the page to write
  // context-report: scaling methods to compare.
  std::vector<std::string> methods;
  std::vector<std::string> positional;  // after the command
};

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_CLI_OPTIONS_H_
