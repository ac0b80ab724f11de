#include "server/rope_flags.h"

#include <optional>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace headrace {

namespace {

struct Scaling {
  std::string_view name;
  RopeRequest::Kind kind;
  RopeType type;
};

constexpr Scaling kScalings[] = {
    {"", RopeRequest::Kind::kUnset, RopeType::kDefault},
    {"none", RopeRequest::Kind::kNone, RopeType::kDefault},
    {"auto", RopeRequest::Kind::kAuto, RopeType::kDefault},
    {"linear", RopeRequest::Kind::kScaling, RopeType::kLinear},
    {"ntk", RopeRequest::Kind::kScaling, RopeType::kNtk},
    {"dynamic_ntk", RopeRequest::Kind::kScaling, RopeType::kDynamicNtk},
    {"yarn", RopeRequest::Kind::kScaling, RopeType::kYarn},
    {"longrope", RopeRequest::Kind::kScaling, RopeType::kLongRope},
    {"llama3", RopeRequest::Kind::kScaling, RopeType::kLlama3},
    {"proportional", RopeRequest::Kind::kScaling, RopeType::kProportional},
};

const Scaling* FindScaling(const std::string& name) {
  for (const Scaling& scaling : kScalings) {
    if (scaling.name == name) return &scaling;
  }
  return nullptr;
}

template <typename T>
std::optional<T> ToStd(const absl::optional<T>& value) {
  return value.has_value() ? std::optional<T>(*value) : std::nullopt;
}

absl::StatusOr<std::vector<double>> ParseNumbers(
    const char* flag, const std::vector<std::string>& texts) {
  std::vector<double> numbers;
  for (const std::string& text : texts) {
    double number = 0;
    if (!absl::SimpleAtod(text, &number)) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " must be numbers; has \"", text, "\""));
    }
    numbers.push_back(number);
  }
  return numbers;
}

bool HasParameters(const RopeFlags& flags) {
  return flags.factor || flags.original_max_position_embeddings ||
         flags.attention_factor || flags.beta_fast || flags.beta_slow ||
         flags.mscale || flags.mscale_all_dim || flags.truncate ||
         flags.low_freq_factor || flags.high_freq_factor ||
         flags.partial_rotary_factor || !flags.short_factor.empty() ||
         !flags.long_factor.empty();
}

}  // namespace

absl::StatusOr<RopeRequest> ToRopeRequest(const RopeFlags& flags) {
  const Scaling* scaling = FindScaling(flags.scaling);
  if (scaling == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--rope_scaling must be none, linear, ntk, dynamic_ntk, "
                     "yarn, longrope, llama3, proportional or auto; is \"",
                     flags.scaling, "\""));
  }
  if (scaling->kind != RopeRequest::Kind::kScaling && HasParameters(flags)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rope_factor and the like need a --rope_scaling that takes them; is "
        "\"",
        flags.scaling, "\""));
  }
  RopeRequest request{.kind = scaling->kind,
                      .rope_theta = ToStd(flags.theta),
                      .max_context = flags.context_length};
  RopeParams& params = request.scaling;
  params.type = scaling->type;
  params.factor = ToStd(flags.factor);
  params.original_max_position_embeddings =
      ToStd(flags.original_max_position_embeddings);
  params.attention_factor = ToStd(flags.attention_factor);
  params.beta_fast = ToStd(flags.beta_fast);
  params.beta_slow = ToStd(flags.beta_slow);
  params.mscale = ToStd(flags.mscale);
  params.mscale_all_dim = ToStd(flags.mscale_all_dim);
  params.truncate = ToStd(flags.truncate);
  params.low_freq_factor = ToStd(flags.low_freq_factor);
  params.high_freq_factor = ToStd(flags.high_freq_factor);
  params.partial_rotary_factor = ToStd(flags.partial_rotary_factor);
  ASSIGN_OR_RETURN(params.short_factor,
                   ParseNumbers("--rope_short_factor", flags.short_factor));
  ASSIGN_OR_RETURN(params.long_factor,
                   ParseNumbers("--rope_long_factor", flags.long_factor));
  return request;
}

}  // namespace headrace
