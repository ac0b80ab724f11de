// Parts that several scaling methods are made of.
#ifndef HEADRACE_ENGINE_ROPE_SCALING_COMMON_H_
#define HEADRACE_ENGINE_ROPE_SCALING_COMMON_H_

#include <cstdint>
#include <vector>

#include "engine/base/field_violation.h"
#include "engine/rope/rope_params.h"

namespace headrace {

// The unscaled ladder theta^(-2i / rotary_dim), i = 0 ... rotary_dim / 2 - 1,
// each divided by its stored divisor where the file has them.
// Source: Su et al. 2021, arXiv:2104.09864, section 3.2.2.
std::vector<double> FrequencyLadder(const RopeParams& params, double theta);

// theta * scale^(d / (d - 2)), d = rotary_dim > 2: the base that leaves the
// first pair as it is and divides the last one by `scale`.
double NtkAwareTheta(const RopeParams& params, double scale);

// floor(factor * length), where a product that rounding left just below a
// whole number counts as that number; at most kMaxRopePositions.
int64_t ScaledLength(double factor, int64_t length);

// original_max_position_embeddings, or else max_position_embeddings.
int64_t OriginalLength(const RopeParams& params);

// Table entries of methods that need nothing special.
void FillNothing(RopeParams& params);
void FillOriginalLength(RopeParams& params);
void CheckNothing(const RopeParams& params,
                  std::vector<FieldViolation>& violations);
// d - 2 divides: NTK-aware methods need more than one pair.
void CheckMoreThanOnePair(const RopeParams& params,
                          std::vector<FieldViolation>& violations);
double UnitAttentionFactor(const RopeParams& params);
int64_t FactorTimesOriginalLength(const RopeParams& params);
int64_t MaxPositionEmbeddings(const RopeParams& params);
// The method's whole context length: its frequencies do not depend on it.
int64_t FreezeAtContextLength(const RopeParams& params, int64_t needed);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_SCALING_COMMON_H_
