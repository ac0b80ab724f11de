// The JSON header of a .safetensors file, as a stream of events: its size is
// bounded, but its entries may be many and lie.
#ifndef HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_HEADER_H_
#define HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headrace {

// An entry as it is written; nothing about it is checked but its form.
struct SafetensorsHeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Errors: DATA_LOSS naming `file_name` and the entry: not JSON, an entry
// without dtype, shape or data_offsets, or with anything else.
absl::StatusOr<std::vector<SafetensorsHeaderEntry>> ParseSafetensorsHeader(
    std::string_view json, std::string_view file_name);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_HEADER_H_
