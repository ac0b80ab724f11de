// A .safetensors header to tensor places. Knows nothing of folders and indexes
// (safetensors.h does): what fuzzers and tests feed.
#ifndef HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_READER_H_
#define HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor_view.h"

namespace headrace {

struct SafetensorsInfo {
  std::string name;
  std::string_view dtype_name;  // "F32", "I64"; static storage
  std::optional<DType> dtype;   // nullopt: a type that no weight of ours has
  Shape shape;                  // [] for a scalar; dimensions may be 0
  uint64_t offset = 0;          // from the start of the file
  int64_t bytes = 0;            // offset + bytes is inside the file
};

// Parses a whole file: header, then data without holes or overlaps up to the
// very end. Tensors come in order of offset.
//
// Errors: DATA_LOSS naming `file_name` and the tensor, what was found and what
// was wanted. Source: huggingface/safetensors README.md, tensor.rs (0.5).
absl::StatusOr<std::vector<SafetensorsInfo>> ParseSafetensors(
    std::span<const std::byte> file, std::string_view file_name);

// Whether a file begins as safetensors do: a length that fits, then '{'.
bool LooksLikeSafetensors(std::span<const std::byte> file);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_READER_H_
