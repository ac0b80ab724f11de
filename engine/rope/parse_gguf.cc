#include "engine/rope/parse_gguf.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/rope/json_fields.h"
#include "engine/rope/rope_validation.h"
#include "engine/rope/scaling_common.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// Keys after "{arch}.".
constexpr std::string_view kScalingType = "rope.scaling.type";
constexpr std::string_view kScalingFactor = "rope.scaling.factor";
constexpr std::string_view kOldScalingFactor = "rope.scale_linear";
constexpr std::string_view kOriginalLength =
    "rope.scaling.original_context_length";
constexpr std::string_view kAttnFactor = "rope.scaling.attn_factor";
constexpr std::string_view kYarnExtFactor = "rope.scaling.yarn_ext_factor";
constexpr std::string_view kYarnAttnFactor = "rope.scaling.yarn_attn_factor";
constexpr std::string_view kYarnBetaFast = "rope.scaling.yarn_beta_fast";
constexpr std::string_view kYarnBetaSlow = "rope.scaling.yarn_beta_slow";
constexpr std::string_view kYarnLogMultiplier =
    "rope.scaling.yarn_log_multiplier";
constexpr std::string_view kFreqBase = "rope.freq_base";
constexpr std::string_view kFreqBaseSwa = "rope.freq_base_swa";
constexpr std::string_view kDimensionCount = "rope.dimension_count";
constexpr std::string_view kContextLength = "context_length";

// Read, or without effect on text.
constexpr std::array kKnownRopeKeys = {
    kScalingType,
    kScalingFactor,
    kOldScalingFactor,
    kOriginalLength,
    kAttnFactor,
    kYarnExtFactor,
    kYarnAttnFactor,
    kYarnBetaFast,
    kYarnBetaSlow,
    kYarnLogMultiplier,
    kFreqBase,
    kFreqBaseSwa,
    kDimensionCount,
    std::string_view("rope.dimension_sections"),
    std::string_view("rope.scaling.finetuned"),
};

class GgufRopeReader {
 public:
  GgufRopeReader(const Json& kvs, std::string_view arch,
                 const GgufRopeTensors& tensors)
      : kvs_{kvs, ""}, arch_(std::string(arch) + "."), tensors_(tensors) {}

  absl::StatusOr<ParsedRope> Read();

 private:
  absl::Status ReadDimensions();
  absl::StatusOr<int64_t> ReadHeadCount();
  absl::Status ReadTheta();
  absl::Status ReadType();
  absl::Status ReadFactor();
  absl::Status ReadYarn();
  absl::Status ReadLongRope();
  void TakeStoredDivisors();
  void WarnOfUnknownKeys();
  absl::Status Validate() const;

  std::string Key(std::string_view key) const {
    return arch_ + std::string(key);
  }
  absl::StatusOr<std::optional<double>> Number(std::string_view key) {
    return ReadNumber(kvs_, Key(key));
  }
  absl::StatusOr<std::optional<int64_t>> Integer(std::string_view key) {
    return ReadInteger(kvs_, Key(key));
  }
  std::string PathOfField(std::string_view field) const;
  RopeParams& params() { return parsed_.params; }

  JsonScope kvs_;
  std::string arch_;
  GgufRopeTensors tensors_;
  ParsedRope parsed_;
};

// A number, or one per layer that are all equal.
absl::StatusOr<int64_t> GgufRopeReader::ReadHeadCount() {
  const std::string key = Key("attention.head_count");
  const Json* value = FindValue(kvs_, key);
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " is missing: RoPE needs the width of a head"));
  }
  if (value->is_array()) {
    ASSIGN_OR_RETURN(const auto counts, ReadNumbers(kvs_, key));
    const bool differ =
        std::adjacent_find(counts.begin(), counts.end(),
                           std::not_equal_to<>()) != counts.end();
    if (counts.empty() || differ || counts.front() < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          key, " must be one positive number for all layers, where ",
          Key("attention.key_length"), " is not given"));
    }
    return static_cast<int64_t>(counts.front());
  }
  ASSIGN_OR_RETURN(const auto count, ReadInteger(kvs_, key));
  if (*count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " must be at least 1; is ", *count));
  }
  return *count;
}

absl::Status GgufRopeReader::ReadDimensions() {
  ASSIGN_OR_RETURN(const auto key_length, Integer("attention.key_length"));
  if (key_length.has_value()) {
    params().head_dim = *key_length;
  } else {
    ASSIGN_OR_RETURN(const auto width, Integer("embedding_length"));
    ASSIGN_OR_RETURN(const int64_t heads, ReadHeadCount());
    params().head_dim = width.value_or(0) / heads;
  }
  ASSIGN_OR_RETURN(const auto rotary_dim, Integer(kDimensionCount));
  params().rotary_dim = rotary_dim.value_or(params().head_dim);
  ASSIGN_OR_RETURN(const auto positions, Integer(kContextLength));
  if (!positions.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Key(kContextLength), " is missing: RoPE needs it"));
  }
  params().max_position_embeddings = *positions;
  ASSIGN_OR_RETURN(const auto original, Integer(kOriginalLength));
  // Old converters write 0 for "not extended".
  if (original.has_value() && *original != 0) {
    params().original_max_position_embeddings = original;
  }
  return absl::OkStatus();
}

absl::Status GgufRopeReader::ReadTheta() {
  ASSIGN_OR_RETURN(const auto theta, Number(kFreqBase));
  params().rope_theta = theta.value_or(10000.0);
  ASSIGN_OR_RETURN(const auto local_theta, Number(kFreqBaseSwa));
  if (local_theta.has_value() && *local_theta != params().rope_theta) {
    return absl::InvalidArgumentError(absl::StrCat(
        Key(kFreqBaseSwa), " must equal ", Key(kFreqBase), " (",
        params().rope_theta, "); is ", *local_theta,
        ": a rotary encoding that differs by layer is not supported"));
  }
  return absl::OkStatus();
}

absl::Status GgufRopeReader::ReadType() {
  ASSIGN_OR_RETURN(const auto type, ReadString(kvs_, Key(kScalingType)));
  const std::string name =
      type.value_or(tensors_.factors_long.empty() ? "linear" : "longrope");
  if (name == "none") return absl::OkStatus();
  if (name == "linear") {
    params().type = RopeType::kLinear;
  } else if (name == "yarn") {
    params().type = RopeType::kYarn;
  } else if (name == "longrope") {
    params().type = RopeType::kLongRope;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        Key(kScalingType), " must be none, linear, yarn or longrope; is \"",
        name, "\""));
  }
  return absl::OkStatus();
}

absl::Status GgufRopeReader::ReadFactor() {
  ASSIGN_OR_RETURN(auto factor, Number(kScalingFactor));
  if (!factor.has_value()) {
    ASSIGN_OR_RETURN(factor, Number(kOldScalingFactor));
  }
  if (!factor.has_value() || *factor == 0) factor = 1.0;
  if (params().type == RopeType::kLinear && *factor == 1) {
    params().type = RopeType::kDefault;
  }
  if (params().type == RopeType::kLinear || params().type == RopeType::kYarn) {
    params().factor = factor;
  }
  return absl::OkStatus();
}

// The magnitude is m(s) * attn_factor, or with a log multiplier k
// m(s, 1) / m(s, k) * attn_factor (llama.cpp of 2026, llama-context.cpp).
absl::Status GgufRopeReader::ReadYarn() {
  ASSIGN_OR_RETURN(const auto ext_factor, Number(kYarnExtFactor));
  if (ext_factor.value_or(1) >= 0 && ext_factor.value_or(1) != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        Key(kYarnExtFactor), " must be 1, or negative for the default; is ",
        *ext_factor));
  }
  ASSIGN_OR_RETURN(params().beta_fast, Number(kYarnBetaFast));
  ASSIGN_OR_RETURN(params().beta_slow, Number(kYarnBetaSlow));
  ASSIGN_OR_RETURN(const auto log_multiplier, Number(kYarnLogMultiplier));
  if (log_multiplier.value_or(0) != 0) {
    params().mscale = 1.0;
    params().mscale_all_dim = log_multiplier;
  }
  ASSIGN_OR_RETURN(const auto attn_factor, Number(kAttnFactor));
  if (attn_factor.value_or(1) != 1) {
    RETURN_IF_ERROR(Validate());
    ASSIGN_OR_RETURN(const EffectiveRope plain,
                     ResolveRope(params(), RopePairing::kInterleaved, 0));
    params().attention_factor = plain.attention_factor * *attn_factor;
  }
  ASSIGN_OR_RETURN(const auto yarn_attn_factor, Number(kYarnAttnFactor));
  if (yarn_attn_factor.value_or(1) != 1) {
    parsed_.warnings.push_back(
        absl::StrCat(Key(kYarnAttnFactor), " is ", *yarn_attn_factor,
                     " and not used: YaRN's own magnitude replaces it"));
  }
  return absl::OkStatus();
}

absl::Status GgufRopeReader::ReadLongRope() {
  for (const auto& [name, factors] :
       {std::pair("rope_factors_short.weight", tensors_.factors_short),
        std::pair("rope_factors_long.weight", tensors_.factors_long)}) {
    if (!factors.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is missing: longrope scaling needs it"));
  }
  params().short_factor.assign(tensors_.factors_short.begin(),
                               tensors_.factors_short.end());
  params().long_factor.assign(tensors_.factors_long.begin(),
                              tensors_.factors_long.end());
  ASSIGN_OR_RETURN(params().attention_factor, Number(kAttnFactor));
  return absl::OkStatus();
}

void GgufRopeReader::TakeStoredDivisors() {
  const bool scales = std::any_of(tensors_.freqs.begin(), tensors_.freqs.end(),
                                  [](float divisor) { return divisor != 1; });
  if (!scales) return;
  params().stored_divisors.assign(tensors_.freqs.begin(), tensors_.freqs.end());
  if (params().type == RopeType::kDefault) params().type = RopeType::kLlama3;
}

void GgufRopeReader::WarnOfUnknownKeys() {
  for (const auto& [key, value] : kvs_.object.items()) {
    if (!key.starts_with(Key("rope."))) continue;
    const std::string_view name = std::string_view(key).substr(arch_.size());
    if (std::find(kKnownRopeKeys.begin(), kKnownRopeKeys.end(), name) !=
        kKnownRopeKeys.end()) {
      continue;
    }
    parsed_.warnings.push_back(absl::StrCat(key, " is not known and not used"));
  }
}

std::string GgufRopeReader::PathOfField(std::string_view field) const {
  struct Path {
    std::string_view field;
    std::string_view key;  // after the architecture's name
  };
  constexpr std::array<Path, 9> kKeys = {{
      {"rope_theta", kFreqBase},
      {"head_dim", "attention.key_length"},
      {"rotary_dim", kDimensionCount},
      {"max_position_embeddings", kContextLength},
      {"original_max_position_embeddings", kOriginalLength},
      {"factor", kScalingFactor},
      {"attention_factor", kAttnFactor},
      {"beta_fast", kYarnBetaFast},
      {"beta_slow", kYarnBetaSlow},
  }};
  constexpr std::array<Path, 3> kTensors = {{
      {"stored_divisors", "rope_freqs.weight"},
      {"short_factor", "rope_factors_short.weight"},
      {"long_factor", "rope_factors_long.weight"},
  }};
  for (const Path& path : kKeys) {
    if (field == path.field) return Key(path.key);
  }
  for (const Path& path : kTensors) {
    if (field.starts_with(path.field)) {
      return std::string(path.key).append(field.substr(path.field.size()));
    }
  }
  return std::string(field);
}

absl::Status GgufRopeReader::Validate() const {
  return RopeViolationsToStatus(
      ValidateRopeParams(parsed_.params),
      [this](std::string_view field) { return PathOfField(field); });
}

absl::StatusOr<ParsedRope> GgufRopeReader::Read() {
  RETURN_IF_ERROR(ReadDimensions());
  RETURN_IF_ERROR(ReadTheta());
  RETURN_IF_ERROR(ReadType());
  RETURN_IF_ERROR(ReadFactor());
  TakeStoredDivisors();
  if (params().type == RopeType::kYarn) RETURN_IF_ERROR(ReadYarn());
  if (params().type == RopeType::kLongRope) RETURN_IF_ERROR(ReadLongRope());
  RETURN_IF_ERROR(Validate());
  WarnOfUnknownKeys();
  return std::move(parsed_);
}

}  // namespace

absl::StatusOr<ParsedRope> RopeParamsFromGguf(const Json& kvs,
                                              std::string_view arch,
                                              const GgufRopeTensors& tensors) {
  return GgufRopeReader(kvs, arch, tensors).Read();
}

}  // namespace headrace
