#include "server/convert/sampling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace headrace {

namespace {

constexpr uint32_t kMaxChoices = 16;
constexpr int kMaxStopStrings = 16;
constexpr size_t kMaxStopStringBytes = 1024;
constexpr uint32_t kMaxTopN = 100;
constexpr int kMaxLogprobTokens = 100;
// Absurdly long, and far from what a duration can hold.
constexpr double kMaxTimeLimitSeconds = 1e9;

void SetScalars(const v1::SamplingParams& proto, SamplingParams& params) {
  if (proto.has_temperature()) params.temperature = proto.temperature();
  if (proto.has_top_k()) params.top_k = proto.top_k();
  if (proto.has_top_p()) params.top_p = proto.top_p();
  if (proto.has_min_p()) params.min_p = proto.min_p();
  if (proto.has_typical_p()) params.typical_p = proto.typical_p();
  if (proto.has_repetition_penalty()) {
    params.repetition_penalty = proto.repetition_penalty();
  }
  if (proto.has_presence_penalty()) {
    params.presence_penalty = proto.presence_penalty();
  }
  if (proto.has_frequency_penalty()) {
    params.frequency_penalty = proto.frequency_penalty();
  }
}

// The ids that the model has; a violation for each other.
std::vector<int32_t> CheckIds(
    const google::protobuf::RepeatedField<uint32_t>& ids,
    const std::string& field, const ServingContext& context,
    Violations& violations) {
  std::vector<int32_t> checked;
  checked.reserve(ids.size());
  for (int i = 0; i < ids.size(); ++i) {
    if (violations.CheckTokenId(field, i, ids[i], context.vocab_size())) {
      checked.push_back(static_cast<int32_t>(ids[i]));
    }
  }
  return checked;
}

// A set of ids: one that is sent a million times costs no more than once.
std::vector<int32_t> CheckIdSet(
    const google::protobuf::RepeatedField<uint32_t>& ids,
    const std::string& field, const ServingContext& context,
    Violations& violations) {
  std::vector<int32_t> set = CheckIds(ids, field, context, violations);
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  return set;
}

void SetLogitBias(const v1::SamplingParams& proto,
                  const ServingContext& context, SamplingParams& params,
                  Violations& violations) {
  const std::map<uint32_t, float> sorted(proto.logit_bias().begin(),
                                         proto.logit_bias().end());
  for (const auto& [id, bias] : sorted) {
    if (violations.CheckTokenId("sampling.logit_bias", id, id,
                                context.vocab_size())) {
      params.logit_bias.push_back({static_cast<int32_t>(id), bias});
    }
  }
}

// The engine counts biases, the protocol has a map: "logit_bias[2].bias" is
// the client's "logit_bias[<id>]".
std::string FieldOfBias(std::string_view field,
                        const std::vector<LogitBias>& biases) {
  constexpr std::string_view kPrefix = "logit_bias[";
  size_t index = 0;
  if (!field.starts_with(kPrefix)) return std::string(field);
  field.remove_prefix(kPrefix.size());
  const std::string number(field.substr(0, field.find(']')));
  if (!absl::SimpleAtoi(number, &index) || index >= biases.size()) return {};
  return Indexed("logit_bias", biases[index].token_id);
}

void AddSamplingViolations(const SamplingParams& params,
                           const ServingContext& context,
                           Violations& violations) {
  for (FieldViolation& violation :
       ValidateSamplingParams(params, context.vocab_size())) {
    violations.Add(
        "sampling." + FieldOfBias(violation.field, params.logit_bias),
        std::move(violation.description));
  }
}

void ResolveStopStrings(const v1::StopConditions& proto,
                        const ServingContext& context, StopRules& stop,
                        Violations& violations) {
  if (proto.stop_strings_size() > kMaxStopStrings) {
    violations.Add("stop.stop_strings",
                   absl::StrCat("must be at most ", kMaxStopStrings, "; are ",
                                proto.stop_strings_size()));
    return;
  }
  if (!proto.stop_strings().empty() && context.engine->tokenizer() == nullptr) {
    violations.Add("stop.stop_strings",
                   "need a tokenizer, and the model's folder has none");
  }
  for (int i = 0; i < proto.stop_strings_size(); ++i) {
    const std::string& text = proto.stop_strings(i);
    if (text.empty() || text.size() > kMaxStopStringBytes) {
      violations.Add(Indexed("stop.stop_strings", i),
                     absl::StrCat("must have from 1 to ", kMaxStopStringBytes,
                                  " bytes; has ", text.size()));
    }
    stop.stop_strings.push_back(text);
  }
}

}  // namespace

void ResolveSampling(const v1::SamplingParams& proto,
                     const ServingContext& context, Request& request,
                     Violations& violations) {
  SamplingParams& params = request.sequence.sampling;
  SetScalars(proto, params);
  SetLogitBias(proto, context, params, violations);
  params.allowed_token_ids =
      CheckIdSet(proto.allowed_token_ids(), "sampling.allowed_token_ids",
                 context, violations);
  params.seed = proto.has_seed() ? proto.seed() : context.random_seed();
  AddSamplingViolations(params, context, violations);
  if (!proto.has_n()) return;
  if (proto.n() < 1 || proto.n() > kMaxChoices) {
    violations.Add("sampling.n", absl::StrCat("must be from 1 to ", kMaxChoices,
                                              "; is ", proto.n()));
    return;
  }
  request.num_choices = static_cast<int32_t>(proto.n());
}

void ResolveStop(const v1::StopConditions& proto, const ServingContext& context,
                 Request& request, Violations& violations) {
  SequenceOptions& sequence = request.sequence;
  if (!proto.ignore_eos()) {
    sequence.end_token_ids = context.engine->model().end_token_ids;
  }
  const std::vector<int32_t> own = CheckIdSet(
      proto.stop_token_ids(), "stop.stop_token_ids", context, violations);
  sequence.end_token_ids.insert(sequence.end_token_ids.end(), own.begin(),
                                own.end());
  sequence.min_tokens = proto.min_tokens();
  if (proto.has_max_tokens() && proto.min_tokens() > proto.max_tokens()) {
    violations.Add(
        "stop.min_tokens",
        absl::StrCat("must be at most max_tokens, ", proto.max_tokens(),
                     "; is ", proto.min_tokens()));
  }
  ResolveStopStrings(proto, context, request.stop, violations);
  request.stop.include_stop_string = proto.include_stop_string();
  if (!proto.has_time_limit()) return;
  const double seconds = proto.time_limit();
  if (!(seconds > 0 && seconds <= kMaxTimeLimitSeconds)) {
    violations.Add(
        "stop.time_limit",
        absl::StrCat("must be above 0 and at most ", kMaxTimeLimitSeconds,
                     " seconds; is ", seconds));
    return;
  }
  request.stop.time_limit = absl::Seconds(seconds);
}

LogprobsOptions ResolveLogprobs(const v1::LogprobsOptions& proto,
                                const ServingContext& context,
                                Violations& violations) {
  LogprobsOptions options{
      .top_n = static_cast<int32_t>(std::min(proto.top_n(), kMaxTopN)),
      .enabled = true,
      .prompt = proto.prompt()};
  if (proto.top_n() > kMaxTopN) {
    violations.Add(
        "logprobs.top_n",
        absl::StrCat("must be from 0 to ", kMaxTopN, "; is ", proto.top_n()));
  }
  if (proto.of_token_ids_size() > kMaxLogprobTokens) {
    violations.Add("logprobs.of_token_ids",
                   absl::StrCat("must be at most ", kMaxLogprobTokens, "; are ",
                                proto.of_token_ids_size()));
    return options;
  }
  options.of_token_ids = CheckIds(proto.of_token_ids(), "logprobs.of_token_ids",
                                  context, violations);
  return options;
}

v1::SamplingParams ToProto(const SamplingParams& params, int32_t num_choices) {
  v1::SamplingParams proto;
  proto.set_temperature(params.temperature);
  proto.set_top_k(params.top_k);
  proto.set_top_p(params.top_p);
  proto.set_min_p(params.min_p);
  proto.set_typical_p(params.typical_p);
  proto.set_repetition_penalty(params.repetition_penalty);
  proto.set_presence_penalty(params.presence_penalty);
  proto.set_frequency_penalty(params.frequency_penalty);
  for (const LogitBias& bias : params.logit_bias) {
    (*proto.mutable_logit_bias())[bias.token_id] = bias.bias;
  }
  proto.mutable_allowed_token_ids()->Assign(params.allowed_token_ids.begin(),
                                            params.allowed_token_ids.end());
  proto.set_seed(params.seed);
  proto.set_n(static_cast<uint32_t>(num_choices));
  return proto;
}

}  // namespace headrace
