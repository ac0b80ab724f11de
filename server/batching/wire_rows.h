// Float32 rows to their bytes on the wire.
#ifndef HEADRACE_SERVER_BATCHING_WIRE_ROWS_H_
#define HEADRACE_SERVER_BATCHING_WIRE_ROWS_H_

#include <span>

#include "server/batching/events.h"

namespace headrace {

// Appends a row to `chunk`, little-endian, rounded to nearest even, as
// chunk.dtype says, and notes what narrowing lost.
//
// kInt8: value = scale * q with |q| <= 127 and the scale of the row's largest
// value. Up to kMaxRowOutliers values that are more than 6 times the root mean
// square of those below them travel as they are, so that one dimension of 10^4
// does not wipe out the others; their q is 0. Values that are not finite are
// outliers too; a row with more of them counts them as overflow and sends 0.
void AppendWireRow(std::span<const float> values, ActivationChunk& chunk);

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_WIRE_ROWS_H_
