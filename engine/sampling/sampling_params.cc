#include "engine/sampling/sampling_params.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

class Validator {
 public:
  explicit Validator(int64_t vocab_size) : vocab_size_(vocab_size) {}

  void Violate(std::string field, std::string description) {
    violations_.push_back({std::move(field), std::move(description)});
  }

  // NaN is in no range.
  void Require(bool valid, const char* field, const char* range, double value) {
    if (!valid) Violate(field, absl::StrCat("must be ", range, "; is ", value));
  }

  void RequireId(std::string field, int32_t id) {
    if (id >= 0 && id < vocab_size_) return;
    Violate(std::move(field),
            absl::StrCat("must be in [0, ", vocab_size_, "); is ", id));
  }

  std::vector<FieldViolation> Take() { return std::move(violations_); }

 private:
  int64_t vocab_size_;
  std::vector<FieldViolation> violations_;
};

void CheckLogitBias(const std::vector<LogitBias>& biases,
                    Validator& validator) {
  std::unordered_map<int32_t, size_t> first_by_id;
  for (size_t i = 0; i < biases.size(); ++i) {
    const LogitBias& bias = biases[i];
    const std::string field = absl::StrCat("logit_bias[", i, "]");
    validator.RequireId(field + ".token_id", bias.token_id);
    const auto [first, is_new] = first_by_id.try_emplace(bias.token_id, i);
    if (!is_new) {
      validator.Violate(
          field + ".token_id",
          absl::StrCat("must be given once; ", bias.token_id,
                       " is also in logit_bias[", first->second, "]"));
    }
    if (!std::isfinite(bias.bias) &&
        bias.bias != -std::numeric_limits<float>::infinity()) {
      validator.Violate(
          field + ".bias",
          absl::StrCat("must be finite, or -infinity to ban; is ", bias.bias));
    }
  }
}

}  // namespace

bool IsGreedy(const SamplingParams& params) {
  return params.temperature < std::numeric_limits<float>::min();
}

std::vector<FieldViolation> ValidateSamplingParams(const SamplingParams& params,
                                                   int64_t vocab_size) {
  Validator validator(vocab_size);
  validator.Require(
      std::isfinite(params.temperature) && params.temperature >= 0,
      "temperature", "finite and at least 0", params.temperature);
  if (params.top_k < 0) {
    validator.Violate("top_k",
                      absl::StrCat("must be at least 0; is ", params.top_k));
  }
  validator.Require(params.top_p > 0 && params.top_p <= 1, "top_p", "in (0, 1]",
                    params.top_p);
  validator.Require(params.min_p >= 0 && params.min_p <= 1, "min_p",
                    "in [0, 1]", params.min_p);
  validator.Require(params.typical_p > 0 && params.typical_p <= 1, "typical_p",
                    "in (0, 1]", params.typical_p);
  validator.Require(
      std::isfinite(params.repetition_penalty) && params.repetition_penalty > 0,
      "repetition_penalty", "finite and above 0", params.repetition_penalty);
  validator.Require(std::isfinite(params.presence_penalty), "presence_penalty",
                    "finite", params.presence_penalty);
  validator.Require(std::isfinite(params.frequency_penalty),
                    "frequency_penalty", "finite", params.frequency_penalty);
  CheckLogitBias(params.logit_bias, validator);
  for (size_t i = 0; i < params.allowed_token_ids.size(); ++i) {
    validator.RequireId(absl::StrCat("allowed_token_ids[", i, "]"),
                        params.allowed_token_ids[i]);
  }
  return validator.Take();
}

}  // namespace headrace
