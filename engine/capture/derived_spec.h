// Quantities computed from rows next to the weights, so that kilobytes leave
// the engine instead of megabytes: what is asked for.
#ifndef HEADRACE_ENGINE_CAPTURE_DERIVED_SPEC_H_
#define HEADRACE_ENGINE_CAPTURE_DERIVED_SPEC_H_

#include <cstdint>
#include <vector>

#include "engine/capture/hook_selection.h"

namespace headrace {

enum class DerivedKind : uint8_t {
  kNorm,         // L2 norm of the row
  kProjection,   // row . v for each vector
  kCosine,       // with the same position's row of the selected layer before
  kMean,         // of all rows of the layer, by phase
  kLogitLens,    // what the row would predict
  kAttribution,  // what each writer adds to a token's logit
};

// Whose statistics the final norm of a lens uses.
enum class LensNorm : uint8_t {
  kRecompute,   // the row's own
  kFinalScale,  // those of the last layer's row at the position
};

struct DerivedSpec {
  DerivedKind kind = DerivedKind::kNorm;
  // The rows it is computed from. kAttribution reads every write itself.
  HookSelection where;
  std::vector<std::vector<float>> vectors;  // kProjection
  int32_t top_k = 0;                        // kLogitLens
  LensNorm lens_norm = LensNorm::kRecompute;
  int64_t width = 0;  // kMean: of the hook
  // kLogitLens: these tokens too; kAttribution: these.
  std::vector<int32_t> token_ids;
  // kAttribution: the logit of token_ids[i] less that of contrast_ids[i].
  std::vector<int32_t> contrast_ids;  // as many, or none
  bool by_head = false;               // kAttribution: each head on its own
};

// What the shape of a quantity depends on.
struct DerivedDimensions {
  int64_t num_layers = 0;
  int64_t num_heads = 0;  // of attention
};

// Values and ids of one row of a quantity:
//
//   kNorm        1
//   kProjection  one per vector
//   kCosine      1
//   kMean        as many as the hook
//   kLogitLens   log probabilities of the top_k, then for each of token_ids its
//                log probability and its rank; ids are those of the top_k
//   kAttribution for each token: the embedding, for each layer what attention
//                (or each head) wrote and what the MLP wrote, the residue, the
//                logit that they sum up to
struct DerivedShape {
  int64_t values = 0;
  int64_t ids = 0;
};
DerivedShape ShapeOf(const DerivedSpec& spec,
                     const DerivedDimensions& dimensions);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_DERIVED_SPEC_H_
