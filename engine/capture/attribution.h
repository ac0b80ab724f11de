// Direct logit attribution: a logit as a sum of what each writer put on the
// residual stream, seen through the final norm's scale (Elhage et al. 2021, "A
// mathematical framework for transformer circuits"; TransformerLens's
// logit_attrs).
#ifndef HEADRACE_ENGINE_CAPTURE_ATTRIBUTION_H_
#define HEADRACE_ENGINE_CAPTURE_ATTRIBUTION_H_

#include <cstdint>
#include <memory>

#include "engine/capture/derived_quantity.h"

namespace headrace {

// The residue is the logit that was computed less the sum of the parts: what
// float32, and in the fast mode int8, rounded away, and what interventions on
// the bus itself added. The embedding's part holds an additive position too.
std::unique_ptr<DerivedQuantity> MakeAttribution(
    const DerivedSpec& spec, Unembedding& unembedding,
    const DerivedDimensions& dimensions);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_ATTRIBUTION_H_
