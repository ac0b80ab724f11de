// Products of int8 rows with panels of weights that have a scale for each
// output: which loop serves, and how the rows are cut.
#ifndef HEADRACE_ENGINE_OPS_INT8_LINEAR_H_
#define HEADRACE_ENGINE_OPS_INT8_LINEAR_H_

#include "engine/ops/int8_rows.h"
#include "engine/ops/linear_output.h"
#include "engine/ops/ops_context.h"
#include "engine/ops/packed_panels.h"

namespace headrace {

// dst = src · Wᵀ for one run of panels. The bits do not depend on which loop
// serves.
void MultiplyInt8Panels(OpsContext& context, const PackedPanels& panels,
                        const Int8Rows& src, LinearOutput dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_INT8_LINEAR_H_
