#include "engine/rope/rope_fields.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

constexpr std::array<RopeField, 13> kFields = {{
    {RopeFieldId::kOriginalMaxPositionEmbeddings,
     "original_max_position_embeddings",
     &RopeParams::original_max_position_embeddings, 1, true, kMaxRopePositions},
    {RopeFieldId::kFactor, "factor", &RopeParams::factor, 1},
    {RopeFieldId::kAttentionFactor, "attention_factor",
     &RopeParams::attention_factor, 0},
    {RopeFieldId::kBetaFast, "beta_fast", &RopeParams::beta_fast, 0, false},
    {RopeFieldId::kBetaSlow, "beta_slow", &RopeParams::beta_slow, 0, false},
    {RopeFieldId::kMscale, "mscale", &RopeParams::mscale, 0},
    {RopeFieldId::kMscaleAllDim, "mscale_all_dim", &RopeParams::mscale_all_dim,
     0},
    {RopeFieldId::kTruncate, "truncate", &RopeParams::truncate},
    {RopeFieldId::kLowFreqFactor, "low_freq_factor",
     &RopeParams::low_freq_factor, 0, false},
    {RopeFieldId::kHighFreqFactor, "high_freq_factor",
     &RopeParams::high_freq_factor, 0, false},
    {RopeFieldId::kPartialRotaryFactor, "partial_rotary_factor",
     &RopeParams::partial_rotary_factor, 0, false, 1},
    {RopeFieldId::kShortFactor, "short_factor", &RopeParams::short_factor, 0,
     false},
    {RopeFieldId::kLongFactor, "long_factor", &RopeParams::long_factor, 0,
     false},
}};

bool InRange(const RopeField& field, double value) {
  if (!std::isfinite(value)) return false;
  if (value < field.min) return false;
  if (value == field.min && !field.min_is_allowed) return false;
  return field.max == 0 || value <= field.max;
}

std::string DescribeRange(const RopeField& field) {
  std::string range =
      absl::StrCat("must be finite and ",
                   field.min_is_allowed ? "at least " : "above ", field.min);
  if (field.max != 0) absl::StrAppend(&range, ", at most ", field.max);
  return range;
}

// Calls `check(value, index)` for each number of the field that is set; index
// is -1 outside lists.
template <typename Check>
void ForEachNumber(const RopeField& field, const RopeParams& params,
                   const Check& check) {
  std::visit(
      [&](auto member) {
        const auto& value = params.*member;
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::vector<double>>) {
          for (size_t i = 0; i < value.size(); ++i) {
            check(value[i], static_cast<int64_t>(i));
          }
        } else if constexpr (!std::is_same_v<Value, std::optional<bool>>) {
          if (value.has_value()) check(static_cast<double>(*value), -1);
        }
      },
      field.member);
}

}  // namespace

std::span<const RopeField> RopeFields() { return kFields; }

const RopeField& FindRopeField(RopeFieldId id) {
  return kFields[static_cast<size_t>(id)];
}

bool IsSet(const RopeField& field, const RopeParams& params) {
  return std::visit(
      [&](auto member) {
        const auto& value = params.*member;
        if constexpr (requires { value.has_value(); }) {
          return value.has_value();
        } else {
          return !value.empty();
        }
      },
      field.member);
}

void Unset(const RopeField& field, RopeParams& params) {
  std::visit([&](auto member) { params.*member = {}; }, field.member);
}

void CheckRange(const RopeField& field, const RopeParams& params,
                std::vector<FieldViolation>& violations) {
  ForEachNumber(field, params, [&](double value, int64_t index) {
    if (InRange(field, value)) return;
    std::string name(field.name);
    if (index >= 0) absl::StrAppend(&name, "[", index, "]");
    violations.push_back(
        {std::move(name), absl::StrCat(DescribeRange(field), "; is ", value)});
  });
}

}  // namespace headrace
