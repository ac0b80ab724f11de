// Directions of the residual stream in files that others write: control vectors
// of repeng and llama.cpp (GGUF), and decoders of sparse autoencoders
// (safetensors).
#ifndef HEADRACE_CLIENT_CLI_DIRECTION_FILE_H_
#define HEADRACE_CLIENT_CLI_DIRECTION_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace headrace::cli {

struct Direction {
  // A control vector's layer: llama.cpp and repeng add direction.N to what
  // layer N leaves on the residual stream, our resid_post of layer N. -1: none.
  int64_t layer = -1;
  int64_t feature = -1;  // row of W_dec; -1: none
  std::vector<float> values;
};

// `features`: rows of W_dec; for a control vector, none. Errors: those of
// OpenWeightSource(); INVALID_ARGUMENT for a file that holds neither, or
// features that it has not.
absl::StatusOr<std::vector<Direction>> ReadDirections(
    const std::string& path, const std::vector<int64_t>& features);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_DIRECTION_FILE_H_
