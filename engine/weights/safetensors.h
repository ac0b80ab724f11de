// safetensors models on disk: one file or an indexed set of shards, and the
// JSON files of Hugging Face's folder layout beside them.
#ifndef HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_H_
#define HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/weights/weight_source.h"

namespace headrace {

// Opens a .safetensors file or an index. A shard that an index beside it names
// opens the whole set. Tensors of a dtype that no weight of ours has (integer
// buffers) are left out, as are those that the index does not name; warnings
// name them.
//
// Errors: as ParseSafetensors() and ReadSafetensorsIndex(); DATA_LOSS naming a
// shard or a tensor that is missing, or a tensor in the wrong shard.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensors(
    const std::string& path);

// What OpenSafetensors() could open among the `names` of a folder: the index
// before model.safetensors before any other.
std::vector<std::string> SafetensorsCandidates(
    const std::vector<std::string>& names);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_SAFETENSORS_H_
