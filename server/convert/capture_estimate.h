// What a request's capture will send: the promise in the header and the answer
// of EstimateCapture, by one arithmetic.
#ifndef HEADRACE_SERVER_CONVERT_CAPTURE_ESTIMATE_H_
#define HEADRACE_SERVER_CONVERT_CAPTURE_ESTIMATE_H_

#include <cstdint>

#include "server/batching/request.h"

namespace headrace {

// Rows count every hook and layer of a position.
struct CaptureEstimate {
  int64_t prompt_rows = 0;         // exactly
  int64_t generated_rows_max = 0;  // when every choice reaches max_tokens
  int64_t bytes_max = 0;           // of data
  int64_t messages_max = 0;
};

// Positions of one choice that the capture selects, at the most.
int64_t SelectedPositionsMax(const Request& request);

CaptureEstimate EstimateCapture(const Request& request);

}  // namespace headrace

#endif  // HEADRACE_SERVER_CONVERT_CAPTURE_ESTIMATE_H_
