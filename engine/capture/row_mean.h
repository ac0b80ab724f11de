// The mean of all selected rows of a hook, layer by layer.
#ifndef HEADRACE_ENGINE_CAPTURE_ROW_MEAN_H_
#define HEADRACE_ENGINE_CAPTURE_ROW_MEAN_H_

#include <memory>

#include "engine/capture/derived_quantity.h"

namespace headrace {

// Prompt and generated rows on their own; summed in float64, in order of
// position, and rounded once.
std::unique_ptr<DerivedQuantity> MakeMean(const DerivedSpec& spec);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_ROW_MEAN_H_
