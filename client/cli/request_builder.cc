#include "client/cli/request_builder.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/text_file.h"

namespace headrace::cli {
namespace {

void SetYarn(const RopeOptions& options, v1::YarnScaling& yarn) {
  if (options.factor) yarn.set_factor(*options.factor);
  if (options.attention_factor) {
    yarn.set_attention_factor(*options.attention_factor);
  }
  if (options.beta_fast) yarn.set_beta_fast(*options.beta_fast);
  if (options.beta_slow) yarn.set_beta_slow(*options.beta_slow);
  if (options.original_max_position_embeddings) {
    yarn.set_original_max_position_embeddings(
        *options.original_max_position_embeddings);
  }
}

void SetLlama3(const RopeOptions& options, v1::Llama3Scaling& llama3) {
  llama3.set_factor(options.factor.value_or(0));
  if (options.low_freq_factor) {
    llama3.set_low_freq_factor(*options.low_freq_factor);
  }
  if (options.high_freq_factor) {
    llama3.set_high_freq_factor(*options.high_freq_factor);
  }
  if (options.original_max_position_embeddings) {
    llama3.set_original_max_position_embeddings(
        *options.original_max_position_embeddings);
  }
}

absl::Status SetScaling(const RopeOptions& options, v1::RopeScaling& scaling) {
  const std::string& name = options.scaling;
  const double factor = options.factor.value_or(0);  // the server says >= 1
  if (name == "none") {
    scaling.mutable_none();
  } else if (name == "auto") {
    scaling.mutable_auto_();
  } else if (name == "linear") {
    scaling.mutable_linear()->set_factor(factor);
  } else if (name == "ntk") {
    scaling.mutable_ntk()->set_factor(factor);
  } else if (name == "dynamic_ntk" || name == "dynamic") {
    scaling.mutable_dynamic_ntk()->set_factor(factor);
  } else if (name == "yarn") {
    SetYarn(options, *scaling.mutable_yarn());
  } else if (name == "llama3") {
    SetLlama3(options, *scaling.mutable_llama3());
  } else if (name == "proportional") {
    v1::ProportionalScaling& proportional = *scaling.mutable_proportional();
    proportional.set_partial_rotary_factor(
        options.partial_rotary_factor.value_or(0));
    if (options.factor) proportional.set_factor(*options.factor);
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rope_scaling is ", name,
        "; it takes none, auto, linear, ntk, dynamic_ntk, yarn, llama3 or "
        "proportional"));
  }
  return absl::OkStatus();
}

void SetStop(const StopOptions& options, v1::StopConditions& stop) {
  if (options.max_tokens) stop.set_max_tokens(*options.max_tokens);
  stop.set_min_tokens(options.min_tokens);
  for (const std::string& text : options.stop) stop.add_stop_strings(text);
  stop.set_ignore_eos(options.ignore_eos);
  if (options.time_limit) stop.set_time_limit(*options.time_limit);
}

}  // namespace

absl::StatusOr<v1::TokenIds> ParseTokens(const std::string& text) {
  v1::TokenIds ids;
  for (const absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar(", \n"), absl::SkipEmpty())) {
    uint32_t id = 0;
    if (!absl::SimpleAtoi(part, &id)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token id '", part, "' is not a whole number in [0, 4294967295]"));
    }
    ids.add_ids(id);
  }
  return ids;
}

absl::Status SetPrompt(const CliOptions& options,
                       v1::GenerateRequest& request) {
  const PromptOptions& prompt = options.prompt;
  const int given =
      (prompt.text.has_value() ? 1 : 0) + (prompt.file.empty() ? 0 : 1) +
      (prompt.tokens.empty() ? 0 : 1) + (options.positional.empty() ? 0 : 1);
  if (given != 1) {
    return absl::InvalidArgumentError(
        "give one of --prompt, --prompt_file and --tokens");
  }
  request.set_parse_special(prompt.parse_special);
  if (prompt.add_special_tokens) {
    request.set_add_special_tokens(*prompt.add_special_tokens);
  }
  if (!prompt.tokens.empty()) {
    absl::StatusOr<v1::TokenIds> ids = ParseTokens(prompt.tokens);
    if (!ids.ok()) return ids.status();
    *request.mutable_tokens() = *std::move(ids);
  } else if (!prompt.file.empty()) {
    absl::StatusOr<std::string> text = ReadTextFile(prompt.file);
    if (!text.ok()) return text.status();
    request.set_text(*std::move(text));
  } else {
    request.set_text(prompt.text.has_value() ? *prompt.text
                                             : options.positional.front());
  }
  return absl::OkStatus();
}

absl::Status SetSampling(const SamplingOptions& options,
                         v1::SamplingParams& sampling) {
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.min_p) sampling.set_min_p(*options.min_p);
  if (options.typical_p) sampling.set_typical_p(*options.typical_p);
  if (options.repetition_penalty) {
    sampling.set_repetition_penalty(*options.repetition_penalty);
  }
  if (options.presence_penalty) {
    sampling.set_presence_penalty(*options.presence_penalty);
  }
  if (options.frequency_penalty) {
    sampling.set_frequency_penalty(*options.frequency_penalty);
  }
  if (options.n) sampling.set_n(*options.n);
  if (!options.seed.empty()) {
    uint64_t seed = 0;
    if (!absl::SimpleAtoi(options.seed, &seed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--seed is ", options.seed,
                       ", not a whole number in [0, 18446744073709551615]"));
    }
    sampling.set_seed(seed);
  }
  return absl::OkStatus();
}

absl::Status SetContextExtension(const RopeOptions& options,
                                 v1::ContextExtension& extension) {
  if (options.theta) extension.set_rope_theta(*options.theta);
  extension.set_max_context(options.max_context);
  if (options.scaling.empty()) {
    if (options.factor) {
      return absl::InvalidArgumentError(
          "--rope_factor needs --rope_scaling to say what it scales");
    }
    return absl::OkStatus();
  }
  return SetScaling(options, *extension.mutable_rope_scaling());
}

absl::StatusOr<v1::GenerateRequest> BuildGenerateRequest(
    const CliOptions& options) {
  v1::GenerateRequest request;
  request.set_model(options.model);
  if (absl::Status status =
          SetSampling(options.sampling, *request.mutable_sampling());
      !status.ok()) {
    return status;
  }
  SetStop(options.stop, *request.mutable_stop());
  const RopeOptions& rope = options.rope;
  if (!rope.scaling.empty() || rope.theta || rope.factor ||
      rope.max_context > 0) {
    if (absl::Status status =
            SetContextExtension(rope, *request.mutable_context_extension());
        !status.ok()) {
      return status;
    }
  }
  if (options.logprobs >= 0) {
    request.mutable_logprobs()->set_top_n(
        static_cast<uint32_t>(options.logprobs));
  }
  return request;
}

}  // namespace headrace::cli
