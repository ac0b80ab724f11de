// GGUF models on disk: one file, or a split set of which any shard is given.
#ifndef HEADRACE_ENGINE_WEIGHTS_GGUF_H_
#define HEADRACE_ENGINE_WEIGHTS_GGUF_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/weights/weight_source.h"

namespace headrace {

// Opens `path`; when its name is one of a split set, the whole set. Sisters
// are looked for by name beside `path` as it was given, so a link in a cache
// of blobs finds its sisters' links. The metadata is that of the first shard.
//
// Errors: as ParseGguf(); DATA_LOSS naming a shard that is missing or does not
// belong to the set.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenGguf(const std::string& path);

// What OpenGguf() could open among the `names` of a folder: a set of shards
// counts once, as its first, whether or not that is there.
std::vector<std::string> GgufCandidates(const std::vector<std::string>& names);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_GGUF_H_
