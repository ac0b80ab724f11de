// model.safetensors.index.json: which file of a sharded model holds which
// tensor.
#ifndef HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_INDEX_H_
#define HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_INDEX_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace headrace {

inline constexpr std::string_view kSafetensorsIndexSuffix =
    ".safetensors.index.json";

struct SafetensorsIndex {
  std::string name;  // of the index file, for messages
  // File name to the names of its tensors.
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> shards;
  std::optional<uint64_t> total_size;  // bytes of all tensors, as it says
};

// Errors: DATA_LOSS naming the file: not JSON, no weight_map, a file name that
// is a path ("../x").
absl::StatusOr<SafetensorsIndex> ReadSafetensorsIndex(
    const std::string& path, std::vector<std::string>& warnings);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_INDEX_H_
