// Quantities of single rows: norm, projection on vectors, cosine from layer to
// layer.
#ifndef HEADRACE_ENGINE_CAPTURE_ROW_MEASURES_H_
#define HEADRACE_ENGINE_CAPTURE_ROW_MEASURES_H_

#include <memory>

#include "engine/capture/derived_quantity.h"

namespace headrace {

std::unique_ptr<DerivedQuantity> MakeNorm(const DerivedSpec& spec);
std::unique_ptr<DerivedQuantity> MakeProjection(const DerivedSpec& spec);
std::unique_ptr<DerivedQuantity> MakeCosine(const DerivedSpec& spec);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_CAPTURE_ROW_MEASURES_H_
