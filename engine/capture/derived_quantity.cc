#include "engine/capture/derived_quantity.h"

#include "engine/capture/attribution.h"
#include "engine/capture/logit_lens.h"
#include "engine/capture/row_mean.h"
#include "engine/capture/row_measures.h"

namespace headrace {

std::unique_ptr<DerivedQuantity> MakeDerivedQuantity(
    const DerivedSpec& spec, Unembedding& unembedding,
    const DerivedDimensions& dimensions) {
  switch (spec.kind) {
    case DerivedKind::kNorm:
      return MakeNorm(spec);
    case DerivedKind::kProjection:
      return MakeProjection(spec);
    case DerivedKind::kCosine:
      return MakeCosine(spec);
    case DerivedKind::kMean:
      return MakeMean(spec);
    case DerivedKind::kLogitLens:
      return MakeLogitLens(spec, unembedding, dimensions);
    case DerivedKind::kAttribution:
      return MakeAttribution(spec, unembedding, dimensions);
  }
  return nullptr;
}

}  // namespace headrace
