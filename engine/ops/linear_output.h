// Where the products of rows go.
#ifndef HEADRACE_ENGINE_OPS_LINEAR_OUTPUT_H_
#define HEADRACE_ENGINE_OPS_LINEAR_OUTPUT_H_

#include <cstdint>

namespace headrace {

struct LinearOutput {
  float* rows = nullptr;  // [num_rows, stride], of which out_features each
  int64_t stride = 0;     // >= out_features
  // Adds the products, rounded, to what is there, as AddToBus() would add the
  // rows that are stored otherwise.
  bool add = false;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_OPS_LINEAR_OUTPUT_H_
