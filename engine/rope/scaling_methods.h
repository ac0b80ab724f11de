// The table of scaling methods: all that differs between one RoPE type and
// another. A method is one file that defines its ScalingMethod, a declaration
// here and a line in the table of scaling_methods.cc.
#ifndef HEADRACE_ENGINE_ROPE_SCALING_METHODS_H_
#define HEADRACE_ENGINE_ROPE_SCALING_METHODS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/field_violation.h"
#include "engine/rope/rope_fields.h"
#include "engine/rope/rope_params.h"

namespace headrace {

// The functions take parameters whose defaults are filled in; all but
// fill_defaults and validate take valid ones.
struct ScalingMethod {
  RopeType type;
  const char* name;          // RopeTypeName()
  const char* request_name;  // its name in a request: "dynamic_ntk"
  std::span<const RopeFieldId> required_fields;
  std::span<const RopeFieldId> optional_fields;

  // Sets what is unset and has a default.
  void (*fill_defaults)(RopeParams& params);
  // Appends what is wrong between fields; each field's own range is checked
  // before (RopeField).
  void (*validate)(const RopeParams& params,
                   std::vector<FieldViolation>& violations);
  // Radians per position for a sequence of at most `context_length`
  // positions, one per pair.
  std::vector<double> (*inv_freqs)(const RopeParams& params,
                                   int64_t context_length);
  double (*attention_factor)(const RopeParams& params);
  // The most positions that the method serves.
  int64_t (*context_length)(const RopeParams& params);
  // The length to freeze a sequence at that needs `needed` positions: less
  // than context_length where shorter sequences get other frequencies.
  int64_t (*frozen_length)(const RopeParams& params, int64_t needed);
};

extern const ScalingMethod kDefaultRope;
extern const ScalingMethod kLinearRope;
extern const ScalingMethod kNtkRope;
extern const ScalingMethod kDynamicNtkRope;
extern const ScalingMethod kYarnRope;
extern const ScalingMethod kLongRope;
extern const ScalingMethod kLlama3Rope;
extern const ScalingMethod kProportionalRope;

// In the order of RopeType.
std::span<const ScalingMethod* const> ScalingMethods();
const ScalingMethod& FindScalingMethod(RopeType type);
// Does the method need or take this field?
bool UsesField(const ScalingMethod& method, RopeFieldId id);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_SCALING_METHODS_H_
