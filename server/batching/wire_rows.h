// Float32 rows to their bytes on the wire.
#ifndef HEADRACE_SERVER_BATCHING_WIRE_ROWS_H_
#define HEADRACE_SERVER_BATCHING_WIRE_ROWS_H_

#include <cstdint>
#include <span>
#include <string>

#include "server/batching/capture_layout.h"

namespace headrace {

// What narrowing lost.
struct NarrowingLoss {
  float max_abs_error = 0;     // of values that stayed finite
  int64_t overflow_count = 0;  // finite values that became infinite
};

// Appends `values`, little-endian, rounded to nearest even.
NarrowingLoss AppendWireRow(std::span<const float> values, WireDtype dtype,
                            std::string& data);

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_WIRE_ROWS_H_
