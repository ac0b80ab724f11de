#include "engine/weights/safetensors_index.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"
#include "engine/weights/json_document.h"
#include "engine/weights/mapped_file.h"
#include "nlohmann/json.hpp"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// A name in the index's own folder, and nothing else.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name != "." &&
         name.find("..") == std::string_view::npos &&
         name.find_first_of(std::string_view("/\\\0", 3)) ==
             std::string_view::npos;
}

}  // namespace

absl::StatusOr<SafetensorsIndex> ReadSafetensorsIndex(
    const std::string& path, std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  SafetensorsIndex index{.name = file.name()};
  ASSIGN_OR_RETURN(const Json document,
                   ParseJson(file.text(), file.name(), warnings));
  const Json weight_map =
      document.is_object() ? document.value("weight_map", Json()) : Json();
  if (!weight_map.is_object() || weight_map.empty()) {
    return FileError(index.name, "has no weight_map of tensor names to files");
  }
  for (const auto& [tensor, shard] : weight_map.items()) {
    if (!shard.is_string() ||
        !IsPlainFileName(shard.get_ref<const std::string&>())) {
      return FileError(
          index.name,
          absl::StrFormat("weight_map puts tensor %s into %s; a file name "
                          "without a path is wanted",
                          Quoted(tensor),
                          shard.is_string()
                              ? Quoted(shard.get_ref<const std::string&>())
                              : shard.type_name()));
    }
    index.shards[shard.get_ref<const std::string&>()].insert(tensor);
  }
  const Json total =
      document.value("/metadata/total_size"_json_pointer, Json());
  if (total.is_number_unsigned()) index.total_size = total.get<uint64_t>();
  return index;
}

}  // namespace headrace
