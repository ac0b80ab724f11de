// File names of models cut into several files: PREFIX-00001-of-00002.EXT.
#ifndef HEADRACE_ENGINE_WEIGHTS_SHARD_NAME_H_
#define HEADRACE_ENGINE_WEIGHTS_SHARD_NAME_H_

#include <optional>
#include <string>
#include <string_view>

namespace headrace {

struct ShardName {
  std::string prefix;
  int number = 1;  // from 1
  int count = 1;
  std::string extension;  // ".gguf"

  // The file name of shard `n` of the same set.
  std::string Sister(int n) const;
};

// nullopt when `file_name` is no shard name with that extension, or its
// numbers make no sense (0, or more than the count).
std::optional<ShardName> ParseShardName(std::string_view file_name,
                                        std::string_view extension);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_SHARD_NAME_H_
