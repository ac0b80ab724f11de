#include "engine/weights/gguf.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"
#include "engine/weights/file_path.h"
#include "engine/weights/gguf_reader.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/mapped_source.h"
#include "engine/weights/shard_name.h"

namespace headrace {
namespace {

constexpr std::string_view kExtension = ".gguf";

struct Shard {
  MappedFile file;
  GgufContents contents;
};

absl::StatusOr<Shard> OpenShard(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  ASSIGN_OR_RETURN(GgufContents contents, ParseGguf(file.bytes(), file.name()));
  return Shard{std::move(file), std::move(contents)};
}

// An integer of the metadata; nullopt when the key is absent or no integer.
std::optional<int64_t> FindInt(const GgufContents& contents,
                               std::string_view key) {
  const auto it = contents.metadata.find(key);
  if (it == contents.metadata.end() || !it->is_number_integer()) {
    return std::nullopt;
  }
  return it->get<int64_t>();
}

absl::Status CheckInt(const Shard& shard, std::string_view key,
                      int64_t wanted) {
  const std::optional<int64_t> found = FindInt(shard.contents, key);
  if (found == wanted) return absl::OkStatus();
  return FileError(
      shard.file.name(),
      absl::StrFormat("key \"%s\" is %s; the file's name and its sisters say "
                      "%d",
                      key, found ? absl::StrCat(*found) : "missing", wanted));
}

// A file without a shard's name that says it is a part of something.
absl::Status CheckIsWhole(const Shard& shard) {
  const std::optional<int64_t> count = FindInt(shard.contents, "split.count");
  if (!count.has_value() || *count <= 1) return absl::OkStatus();
  return FileError(
      shard.file.name(),
      absl::StrFormat("is one of %d shards (key \"split.count\"), but is not "
                      "named like NAME-00001-of-%05d.gguf, so the others "
                      "cannot be found",
                      *count, *count));
}

absl::StatusOr<std::vector<Shard>> OpenSet(const std::string& path,
                                           const ShardName& name) {
  std::vector<Shard> shards;
  size_t num_tensors = 0;
  for (int number = 1; number <= name.count; ++number) {
    const std::string sister = name.Sister(number);
    absl::StatusOr<Shard> shard = OpenShard(JoinPath(FolderOf(path), sister));
    if (absl::IsNotFound(shard.status())) {
      return FileError(sister,
                       absl::StrFormat("is missing: shard %d of the %d of %s",
                                       number, name.count, BaseName(path)));
    }
    RETURN_IF_ERROR(shard.status());
    RETURN_IF_ERROR(CheckInt(*shard, "split.count", name.count));
    RETURN_IF_ERROR(CheckInt(*shard, "split.no", number - 1));
    num_tensors += shard->contents.tensors.size();
    shards.push_back(*std::move(shard));
  }
  RETURN_IF_ERROR(CheckInt(shards.front(), "split.tensors.count",
                           static_cast<int64_t>(num_tensors)));
  return shards;
}

absl::StatusOr<std::vector<Shard>> OpenShards(const std::string& path) {
  const std::optional<ShardName> name =
      ParseShardName(BaseName(path), kExtension);
  if (name.has_value() && name->count > 1) return OpenSet(path, *name);
  std::vector<Shard> shards;
  ASSIGN_OR_RETURN(Shard whole, OpenShard(path));
  RETURN_IF_ERROR(CheckIsWhole(whole));
  shards.push_back(std::move(whole));
  return shards;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenGguf(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<Shard> shards, OpenShards(path));
  SourceParts parts{
      .format = WeightFormat::kGguf,
      .format_name = absl::StrCat("GGUF v", shards.front().contents.version)};
  parts.metadata = std::move(shards.front().contents.metadata);
  for (Shard& shard : shards) {
    for (GgufTensorInfo& info : shard.contents.tensors) {
      AddStoredTensor(
          shard.file, info.offset, info.bytes, std::move(info.name),
          TensorView{.dtype = info.dtype, .shape = std::move(info.shape)},
          parts);
    }
    parts.files.push_back(std::move(shard.file));
  }
  return MakeMappedSource(std::move(parts));
}

std::vector<std::string> GgufCandidates(const std::vector<std::string>& names) {
  std::vector<std::string> candidates;
  for (const std::string& name : names) {
    if (!name.ends_with(kExtension)) continue;
    const std::optional<ShardName> shard = ParseShardName(name, kExtension);
    candidates.push_back(shard ? shard->Sister(1) : name);
  }
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()),
                   candidates.end());
  return candidates;
}

}  // namespace headrace
