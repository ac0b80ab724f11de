// The logit lens: what the model would predict if it stopped at a row of the
// residual stream (nostalgebraist 2020, "interpreting GPT: the logit lens").
#ifndef HEADRACE_ENGINE_CAPTURE_LOGIT_LENS_H_
#define HEADRACE_ENGINE_CAPTURE_LOGIT_LENS_H_

#include <memory>

#include "engine/capture/derived_quantity.h"

namespace headrace {

// With LensNorm::kFinalScale, rows wait for the last layer's row at their
// position. Values of a row whose logits are not finite are NaN.
std::unique_ptr<DerivedQuantity> MakeLogitLens(
    const DerivedSpec& spec, Unembedding& unembedding,
    const DerivedDimensions& dimensions);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_LOGIT_LENS_H_
