#include "engine/rope/hf_rope_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/rope/rope_validation.h"
#include "engine/rope/scaling_common.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {

absl::StatusOr<std::optional<int64_t>> HfRopeReader::ReadConfigInteger(
    std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) {
    ASSIGN_OR_RETURN(auto value, ReadInteger(config_, key));
    if (value.has_value()) return value;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<double>> HfRopeReader::ReadOwnOrConfigNumber(
    std::string_view own_key,
    std::initializer_list<std::string_view> config_keys) {
  ASSIGN_OR_RETURN(auto own, ReadNumber(scope_, own_key));
  if (own.has_value()) return own;
  for (std::string_view key : config_keys) {
    ASSIGN_OR_RETURN(auto value, ReadNumber(config_, key));
    if (value.has_value()) return value;
  }
  return std::nullopt;
}

absl::Status HfRopeReader::ReadType() {
  ASSIGN_OR_RETURN(const auto type, ReadString(scope_, "type"));
  ASSIGN_OR_RETURN(const auto rope_type, ReadString(scope_, "rope_type"));
  if (type.has_value() && rope_type.has_value() && *type != *rope_type) {
    return absl::InvalidArgumentError(absl::StrCat(
        scope_.PathOf("rope_type"), " must equal ", scope_.PathOf("type"),
        " (\"", *type, "\"); is \"", *rope_type, "\""));
  }
  std::string name = rope_type.value_or(type.value_or("default"));
  if (name == "su") name = "longrope";  // Phi-3's first name for it
  // With text alone the three position streams are equal: exactly default.
  if (name == "mrope") name = "default";
  for (const ScalingMethod* method : ScalingMethods()) {
    // vLLM's "ntk" divides otherwise than our static NTK, and Hugging Face has
    // none: a file that says so would not get what it means.
    if (name != method->name || method->type == RopeType::kNtk) continue;
    params().type = method->type;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      scope_.PathOf(rope_type.has_value() ? "rope_type" : "type"),
      " must be one of default, linear, dynamic, yarn, longrope, llama3, "
      "proportional; is \"",
      name, "\""));
}

absl::Status HfRopeReader::ReadTheta() {
  ASSIGN_OR_RETURN(
      const auto theta,
      ReadOwnOrConfigNumber("rope_theta", {"rope_theta", "rotary_emb_base"}));
  if (!theta.has_value()) {
    Warn(absl::StrCat("rope_theta is not in config.json: using ",
                      defaults_.rope_theta));
  }
  params().rope_theta = theta.value_or(defaults_.rope_theta);
  return absl::OkStatus();
}

absl::Status HfRopeReader::ReadHead() {
  ASSIGN_OR_RETURN(const auto head_dim, ReadConfigInteger({"head_dim"}));
  if (head_dim.has_value()) {
    params().head_dim = *head_dim;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto hidden_size,
                   ReadConfigInteger({"hidden_size", "n_embd"}));
  ASSIGN_OR_RETURN(const auto num_heads,
                   ReadConfigInteger({"num_attention_heads", "n_head"}));
  if (!hidden_size.has_value() || !num_heads.has_value()) {
    return absl::InvalidArgumentError(
        "head_dim, or hidden_size and num_attention_heads, are missing: RoPE "
        "needs the width of a head");
  }
  if (*num_heads < 1 || *hidden_size % *num_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_attention_heads must divide hidden_size (", *hidden_size,
        ") where head_dim is not given; is ", *num_heads));
  }
  params().head_dim = *hidden_size / *num_heads;
  return absl::OkStatus();
}

absl::Status HfRopeReader::ReadRotaryDim() {
  ASSIGN_OR_RETURN(
      const auto partial,
      ReadOwnOrConfigNumber("partial_rotary_factor",
                            {"partial_rotary_factor", "rotary_pct"}));
  ASSIGN_OR_RETURN(const auto rotary_dim, ReadConfigInteger({"rotary_dim"}));
  const double share = partial.value_or(defaults_.partial_rotary_factor);
  if (!std::isfinite(share) || share <= 0 || share > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(PathOfField("partial_rotary_factor"),
                     " must be above 0 and at most 1; is ", share));
  }
  if (params().type == RopeType::kProportional) {
    params().partial_rotary_factor = share;
    params().rotary_dim = params().head_dim;
  } else if (rotary_dim.has_value() && !partial.has_value()) {
    params().rotary_dim = *rotary_dim;
  } else {
    params().rotary_dim =
        static_cast<int64_t>(static_cast<double>(params().head_dim) * share);
  }
  return absl::OkStatus();
}

absl::Status HfRopeReader::ReadPositions() {
  ASSIGN_OR_RETURN(
      const auto positions,
      ReadConfigInteger({"max_position_embeddings", "n_positions"}));
  if (!positions.has_value()) {
    return absl::InvalidArgumentError(
        "max_position_embeddings is missing: RoPE needs it");
  }
  params().max_position_embeddings = *positions;
  return absl::OkStatus();
}

absl::Status HfRopeReader::ReadField(const RopeField& field) {
  if (const auto* member =
          std::get_if<std::optional<double> RopeParams::*>(&field.member)) {
    ASSIGN_OR_RETURN(params().*(*member), ReadNumber(scope_, field.name));
  } else if (const auto* integer =
                 std::get_if<std::optional<int64_t> RopeParams::*>(
                     &field.member)) {
    ASSIGN_OR_RETURN(params().*(*integer), ReadInteger(scope_, field.name));
  } else if (const auto* boolean =
                 std::get_if<std::optional<bool> RopeParams::*>(
                     &field.member)) {
    ASSIGN_OR_RETURN(params().*(*boolean), ReadBool(scope_, field.name));
  } else if (const auto* list = std::get_if<std::vector<double> RopeParams::*>(
                 &field.member)) {
    ASSIGN_OR_RETURN(params().*(*list), ReadNumbers(scope_, field.name));
  }
  return absl::OkStatus();
}

absl::Status HfRopeReader::ReadMethodFields() {
  const ScalingMethod& method = FindScalingMethod(params().type);
  for (const RopeField& field : RopeFields()) {
    if (field.id == RopeFieldId::kPartialRotaryFactor) continue;
    if (UsesField(method, field.id)) RETURN_IF_ERROR(ReadField(field));
  }
  // Phi-3 keeps it at the top level, where it wins.
  if (form_ == HfRopeForm::kFlat && (params().type == RopeType::kYarn ||
                                     params().type == RopeType::kLongRope ||
                                     params().type == RopeType::kLlama3)) {
    ASSIGN_OR_RETURN(const auto original,
                     ReadConfigInteger({"original_max_position_embeddings"}));
    if (original.has_value()) {
      params().original_max_position_embeddings = original;
    }
  }
  return absl::OkStatus();
}

// Hunyuan's "dynamic" with `alpha` is a larger base at every length.
absl::Status HfRopeReader::FoldAlpha() {
  if (params().type != RopeType::kDynamicNtk) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto alpha, ReadNumber(scope_, "alpha"));
  if (!alpha.has_value()) return absl::OkStatus();
  if (!std::isfinite(*alpha) || *alpha < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        scope_.PathOf("alpha"), " must be finite and at least 1; is ", *alpha));
  }
  if (params().rotary_dim > 2) {
    params().rope_theta = NtkAwareTheta(params(), *alpha);
  }
  params().type = RopeType::kDefault;
  params().factor.reset();
  Warn(absl::StrCat(scope_.PathOf("alpha"),
                    " is folded into rope_theta: ", params().rope_theta));
  return absl::OkStatus();
}

// Gemma 3 before transformers 5: sliding layers have a base of their own.
absl::Status HfRopeReader::RefuseLocalBase() {
  ASSIGN_OR_RETURN(const auto local,
                   ReadNumber(config_, "rope_local_base_freq"));
  if (!local.has_value()) return absl::OkStatus();
  if (*local == params().rope_theta && params().type == RopeType::kDefault) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "rope_local_base_freq is ", *local,
      ", other than the rotary encoding "
      "of the full-attention layers: one encoding for all layers is needed"));
}

void HfRopeReader::WarnOfUnusedKeys() {
  constexpr std::array<std::string_view, 4> kRead = {
      "type", "rope_type", "rope_theta", "partial_rotary_factor"};
  const ScalingMethod& method = FindScalingMethod(params().type);
  for (const auto& [key, value] : scope_.object.items()) {
    const auto is_this = [&key](const auto& name) { return key == name; };
    if (std::any_of(kRead.begin(), kRead.end(), is_this)) continue;
    if (key == "alpha" || key == "mrope_section") continue;
    const auto fields = RopeFields();
    const auto field =
        std::find_if(fields.begin(), fields.end(),
                     [&](const RopeField& f) { return is_this(f.name); });
    if (field == fields.end()) {
      Warn(absl::StrCat(scope_.PathOf(key), " is not known and not used"));
    } else if (!UsesField(method, field->id)) {
      Warn(absl::StrCat(scope_.PathOf(key), " is not used by ", method.name,
                        " scaling"));
    }
  }
}

void HfRopeReader::WarnOfFactorMismatch() {
  if (params().type != RopeType::kYarn || !params().factor.has_value()) return;
  const auto implied = static_cast<double>(params().max_position_embeddings) /
                       static_cast<double>(OriginalLength(params()));
  if (implied == 1 || implied == *params().factor) return;
  Warn(absl::StrCat(scope_.PathOf("factor"), " is ", *params().factor,
                    " but max_position_embeddings / "
                    "original_max_position_embeddings is ",
                    implied, ": using the factor"));
}

std::string HfRopeReader::PathOfField(std::string_view field) const {
  constexpr std::array<std::string_view, 4> kTopLevel = {
      "head_dim", "rotary_dim", "max_position_embeddings", "stored_divisors"};
  if (std::find(kTopLevel.begin(), kTopLevel.end(), field) != kTopLevel.end()) {
    return std::string(field);
  }
  // These two may be in either place.
  if ((field == "rope_theta" || field == "partial_rotary_factor") &&
      FindValue(scope_, field) == nullptr) {
    return std::string(field);
  }
  return scope_.PathOf(field);
}

absl::Status HfRopeReader::Validate() const {
  return RopeViolationsToStatus(
      ValidateRopeParams(parsed_.params),
      [this](std::string_view field) { return PathOfField(field); });
}

absl::StatusOr<ParsedRope> HfRopeReader::Read() {
  RETURN_IF_ERROR(ReadType());
  RETURN_IF_ERROR(ReadTheta());
  RETURN_IF_ERROR(ReadHead());
  RETURN_IF_ERROR(ReadRotaryDim());
  RETURN_IF_ERROR(ReadPositions());
  RETURN_IF_ERROR(ReadMethodFields());
  RETURN_IF_ERROR(FoldAlpha());
  RETURN_IF_ERROR(RefuseLocalBase());
  RETURN_IF_ERROR(Validate());
  WarnOfUnusedKeys();
  WarnOfFactorMismatch();
  return std::move(parsed_);
}

}  // namespace headrace
