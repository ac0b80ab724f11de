#include "engine/rope/rope_params.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/rope/rope_validation.h"
#include "engine/rope/scaling_methods.h"

namespace headrace {
namespace {

// FNV-1a, 64 bits, over whole words in little-endian order of bytes.
class Fnv1a {
 public:
  void Add(uint64_t word) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ ^= (word >> shift) & 0xff;
      hash_ *= 0x100000001b3;
    }
  }
  void Add(double value) { Add(std::bit_cast<uint64_t>(value)); }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

uint64_t HashRope(const EffectiveRope& rope) {
  Fnv1a hash;
  hash.Add(static_cast<uint64_t>(rope.pairing));
  hash.Add(rope.attention_factor);
  for (double inv_freq : rope.inv_freqs) hash.Add(inv_freq);
  return hash.hash();
}

// Queries and keys carry the factor both, and their product is float32.
constexpr double kMaxAttentionFactor = 1e4;

// Each parameter may be in its range and all of them together overflow.
absl::Status CheckEffective(const EffectiveRope& rope) {
  if (!(std::abs(rope.attention_factor) <= kMaxAttentionFactor)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gives an attention factor that must be at most ",
                     kMaxAttentionFactor, "; is ", rope.attention_factor));
  }
  for (size_t i = 0; i < rope.inv_freqs.size(); ++i) {
    const double last_angle =
        rope.inv_freqs[i] * static_cast<double>(kMaxRopePositions);
    if (std::isfinite(last_angle)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "gives frequencies that must be finite, up to position ",
        kMaxRopePositions, "; that of pair ", i, " is ", rope.inv_freqs[i]));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view RopeTypeName(RopeType type) {
  return FindScalingMethod(type).name;
}

std::optional<RopeType> RopeTypeFromName(std::string_view name) {
  for (const ScalingMethod* method : ScalingMethods()) {
    if (name == method->name || name == method->request_name) {
      return method->type;
    }
  }
  return std::nullopt;
}

absl::StatusOr<EffectiveRope> ResolveRope(const RopeParams& params,
                                          RopePairing pairing,
                                          int64_t context_length) {
  RETURN_IF_ERROR(RopeViolationsToStatus(
      ValidateRopeParams(params),
      [](std::string_view field) { return std::string(field); }));
  if (context_length < 0 || context_length > kMaxRopePositions) {
    return absl::InvalidArgumentError(
        absl::StrCat("context_length must be from 0 to ", kMaxRopePositions,
                     "; is ", context_length));
  }
  const ScalingMethod& method = FindScalingMethod(params.type);
  EffectiveRope rope{.params = CompleteRopeParams(params), .pairing = pairing};
  rope.context_length =
      context_length > 0 ? context_length : method.context_length(rope.params);
  rope.inv_freqs = method.inv_freqs(rope.params, rope.context_length);
  rope.attention_factor = method.attention_factor(rope.params);
  RETURN_IF_ERROR(CheckEffective(rope));
  rope.hash = HashRope(rope);
  return rope;
}

}  // namespace headrace
