// The fields of RopeParams that belong to scaling methods, by their Hugging
// Face names, with the range of each: what parsers read and validation checks.
#ifndef HEADRACE_ENGINE_ROPE_ROPE_FIELDS_H_
#define HEADRACE_ENGINE_ROPE_ROPE_FIELDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/base/field_violation.h"
#include "engine/rope/rope_params.h"

namespace headrace {

enum class RopeFieldId : uint8_t {
  kOriginalMaxPositionEmbeddings,
  kFactor,
  kAttentionFactor,
  kBetaFast,
  kBetaSlow,
  kMscale,
  kMscaleAllDim,
  kTruncate,
  kLowFreqFactor,
  kHighFreqFactor,
  kPartialRotaryFactor,
  kShortFactor,
  kLongFactor,
};

struct RopeField {
  using Member = std::variant<
      std::optional<double> RopeParams::*, std::optional<int64_t> RopeParams::*,
      std::optional<bool> RopeParams::*, std::vector<double> RopeParams::*>;
  RopeFieldId id;
  const char* name;
  Member member;
  // Of a number, or of each number of a list.
  double min = 0;
  bool min_is_allowed = true;
  double max = 0;  // 0: any finite value
};

// In the order of RopeFieldId.
std::span<const RopeField> RopeFields();
const RopeField& FindRopeField(RopeFieldId id);

bool IsSet(const RopeField& field, const RopeParams& params);
void Unset(const RopeField& field, RopeParams& params);
// Appends a violation when the field is set to a value out of its range.
void CheckRange(const RopeField& field, const RopeParams& params,
                std::vector<FieldViolation>& violations);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_ROPE_FIELDS_H_
