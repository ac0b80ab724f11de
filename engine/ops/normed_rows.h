// A norm and the rounding of its rows to int8 in one pass: what stands before
// the products of a sublayer in the fast mode.
#ifndef HEADRACE_ENGINE_OPS_NORMED_ROWS_H_
#define HEADRACE_ENGINE_OPS_NORMED_ROWS_H_

#include "engine/ops/int8_rows.h"
#include "engine/ops/ops_context.h"
#include "engine/ops/quantized_rows.h"
#include "engine/ops/rms_norm.h"

namespace headrace {

// dst = the rows of RmsNorm(inputs), quantised, without their source. The same
// bits as RmsNorm() and Quantize() one after the other; a row is still in the
// nearest cache when it is quantised.
void RmsNormQuantize(OpsContext& context, const RmsNormInputs& inputs,
                     QuantizedRows& dst);
void RmsNormQuantize(OpsContext& context, const RmsNormInputs& inputs,
                     Int8Rows& dst);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_NORMED_ROWS_H_
