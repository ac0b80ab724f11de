#include "engine/weights/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"
#include "engine/weights/file_path.h"
#include "engine/weights/json_document.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/mapped_source.h"
#include "engine/weights/packed_matrix.h"
#include "engine/weights/packed_tensors.h"
#include "engine/weights/quantization_config.h"
#include "engine/weights/safetensors_index.h"
#include "engine/weights/safetensors_reader.h"
#include "engine/weights/shard_name.h"

namespace headrace {
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::string_view kWholeModel = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kChatTemplate = "chat_template.jinja";

struct Companion {
  std::string_view key;
  std::string_view file_name;
};
constexpr Companion kCompanions[] = {
    {"config", "config.json"},
    {"generation_config", "generation_config.json"},
    {"tokenizer", "tokenizer.json"},
    {"tokenizer_config", "tokenizer_config.json"},
};

// "2 tensors of model.safetensors REASON: a, b"; many names are cut short.
std::string WarnAbout(const std::vector<std::string>& tensors,
                      std::string_view file, std::string_view reason) {
  constexpr size_t kShown = 5;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kShown, tensors.size()); ++i) {
    names.push_back(Quoted(tensors[i]));
  }
  if (tensors.size() > kShown) names.push_back("…");
  return absl::StrFormat("%s: %d tensors %s: %s", file, tensors.size(), reason,
                         absl::StrJoin(names, ", "));
}

class FolderOpener {
 public:
  explicit FolderOpener(std::string folder) : folder_(std::move(folder)) {
    parts_.format = WeightFormat::kSafetensors;
    parts_.format_name = "safetensors";
  }

  absl::Status OpenWhole(const std::string& name) {
    ASSIGN_OR_RETURN(MappedFile file,
                     MappedFile::Open(JoinPath(folder_, name)));
    ASSIGN_OR_RETURN(std::vector<SafetensorsInfo> infos,
                     ParseSafetensors(file.bytes(), file.name()));
    return AddTensors(std::move(file), std::move(infos));
  }

  absl::Status OpenIndexed(const SafetensorsIndex& index) {
    RETURN_IF_ERROR(CheckShardsExist(index));
    for (const auto& [name, tensors] : index.shards) {
      RETURN_IF_ERROR(OpenShard(index, name, tensors));
    }
    return WarnAboutStrays(index);
  }

  absl::StatusOr<SafetensorsIndex> ReadIndex(std::string_view name) {
    return ReadSafetensorsIndex(JoinPath(folder_, name), parts_.warnings);
  }

  void Warn(std::string warning) {
    parts_.warnings.push_back(std::move(warning));
  }

  absl::Status ReadCompanions() {
    for (const auto& [key, file_name] : kCompanions) {
      const std::string path = JoinPath(folder_, file_name);
      if (!IsFile(path)) continue;
      ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
      ASSIGN_OR_RETURN(parts_.metadata[key],
                       ParseJson(file.text(), file.name(), parts_.warnings));
    }
    const std::string path = JoinPath(folder_, kChatTemplate);
    if (!IsFile(path)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    if (!IsUtf8(file.text())) return FileError(file.name(), "is not UTF-8");
    parts_.metadata["chat_template"] = file.text();
    return absl::OkStatus();
  }

  // After the companions, before the tensors.
  absl::Status ReadQuantization() {
    const auto config = parts_.metadata.find("config");
    if (config == parts_.metadata.end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(quantization_, ReadQuantizationConfig(*config));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<WeightSource>> Finish() {
    if (quantization_.has_value()) {
      absl::StrAppend(&parts_.format_name, " ",
                      std::string(quantization_->name));
      RETURN_IF_ERROR(AddPackedTensors(packed_, *quantization_, parts_));
    }
    return MakeMappedSource(std::move(parts_));
  }

 private:
  absl::Status CheckShardsExist(const SafetensorsIndex& index) const {
    uint64_t present = 0;
    std::vector<std::string> missing;
    for (const auto& [name, tensors] : index.shards) {
      const absl::StatusOr<MappedFile> file =
          MappedFile::Open(JoinPath(folder_, name));
      if (absl::IsNotFound(file.status())) {
        missing.push_back(name);
        continue;
      }
      RETURN_IF_ERROR(file.status());
      present += file->bytes().size();
    }
    if (missing.empty()) return absl::OkStatus();
    const size_t tensors = index.shards.at(missing[0]).size();
    return FileError(
        absl::StrJoin(missing, ", "),
        absl::StrFormat(
            "is missing: %s puts %d tensors there; it counts %s bytes in all, "
            "the shards that are there have %d",
            index.name, tensors,
            index.total_size ? absl::StrCat(*index.total_size) : "unknown",
            present));
  }

  absl::Status OpenShard(const SafetensorsIndex& index, const std::string& name,
                         const std::set<std::string, std::less<>>& wanted) {
    ASSIGN_OR_RETURN(MappedFile file,
                     MappedFile::Open(JoinPath(folder_, name)));
    ASSIGN_OR_RETURN(std::vector<SafetensorsInfo> infos,
                     ParseSafetensors(file.bytes(), file.name()));
    const auto is_wanted = [&wanted](const SafetensorsInfo& info) {
      return wanted.contains(info.name);
    };
    const auto unwanted =
        std::stable_partition(infos.begin(), infos.end(), is_wanted);
    RETURN_IF_ERROR(CheckUnmapped(index, name, {unwanted, infos.end()}));
    infos.erase(unwanted, infos.end());
    RETURN_IF_ERROR(CheckComplete(index, name, wanted, infos));
    return AddTensors(std::move(file), std::move(infos));
  }

  // A tensor that the index does not put here: somewhere else is an error,
  // nowhere a warning.
  absl::Status CheckUnmapped(const SafetensorsIndex& index,
                             const std::string& name,
                             const std::vector<SafetensorsInfo>& infos) {
    std::vector<std::string> unmapped;
    for (const SafetensorsInfo& info : infos) {
      for (const auto& [other, tensors] : index.shards) {
        if (!tensors.contains(info.name)) continue;
        return FileError(name,
                         absl::StrFormat("has tensor %s, which %s puts into %s",
                                         Quoted(info.name), index.name, other));
      }
      unmapped.push_back(info.name);
    }
    if (unmapped.empty()) return absl::OkStatus();
    Warn(WarnAbout(unmapped, name,
                   absl::StrFormat("are not in %s and not used", index.name)));
    return absl::OkStatus();
  }

  static absl::Status CheckComplete(
      const SafetensorsIndex& index, const std::string& name,
      const std::set<std::string, std::less<>>& wanted,
      const std::vector<SafetensorsInfo>& infos) {
    if (infos.size() == wanted.size()) return absl::OkStatus();
    std::set<std::string, std::less<>> found;
    for (const SafetensorsInfo& info : infos) found.insert(info.name);
    std::vector<std::string> lacking;
    std::set_difference(wanted.begin(), wanted.end(), found.begin(),
                        found.end(), std::back_inserter(lacking));
    return FileError(
        name, absl::StrFormat("lacks %d of the %d tensors that %s puts there, "
                              "the first is %s",
                              lacking.size(), wanted.size(), index.name,
                              Quoted(lacking.front())));
  }

  absl::Status WarnAboutStrays(const SafetensorsIndex& index) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(folder_));
    for (const std::string& name : names) {
      if (!name.ends_with(kExtension) || index.shards.contains(name)) continue;
      Warn(absl::StrFormat("%s is not named in %s and not used", name,
                           index.name));
    }
    return absl::OkStatus();
  }

  absl::Status AddTensors(MappedFile file, std::vector<SafetensorsInfo> infos) {
    std::vector<std::string> unsupported;
    std::set<std::string_view> dtypes;
    for (SafetensorsInfo& info : infos) {
      if (!quantization_.has_value() &&
          (info.name.ends_with(".qweight") ||
           info.name.ends_with(".weight_packed"))) {
        return FileError(file.name(),
                         absl::StrFormat("tensor %s is packed, but config.json "
                                         "has no quantization_config",
                                         Quoted(info.name)));
      }
      if (quantization_.has_value() &&
          IsPackedPart(*quantization_, info.name, info.dtype_name)) {
        packed_.push_back({.name = std::move(info.name),
                           .location = absl::StrFormat(
                               "%s: offset %d", file.name(), info.offset),
                           .dtype_name = info.dtype_name,
                           .shape = std::move(info.shape),
                           .data = file.bytes().data() + info.offset});
        continue;
      }
      if (!info.dtype.has_value()) {
        unsupported.push_back(std::move(info.name));
        dtypes.insert(info.dtype_name);
        continue;
      }
      AddStoredTensor(
          file, info.offset, info.bytes, std::move(info.name),
          TensorView{.dtype = *info.dtype, .shape = std::move(info.shape)},
          parts_);
    }
    if (!unsupported.empty()) {
      std::string reason = "are not used, for their dtype";
      for (const std::string_view dtype : dtypes) {
        absl::StrAppendFormat(&reason, " %s", dtype);
      }
      Warn(WarnAbout(unsupported, file.name(), reason));
    }
    parts_.files.push_back(std::move(file));
    return absl::OkStatus();
  }

  const std::string folder_;
  SourceParts parts_;
  std::optional<QuantizationConfig> quantization_;
  std::vector<RawTensor> packed_;  // parts of matrices
};

// The index that governs `name`, when there is one.
absl::StatusOr<std::optional<SafetensorsIndex>> FindIndex(
    const std::string& folder, const std::string& name, FolderOpener& opener) {
  if (name.ends_with(kSafetensorsIndexSuffix)) return opener.ReadIndex(name);
  if (IsFile(JoinPath(folder, kIndex))) {
    ASSIGN_OR_RETURN(SafetensorsIndex index, opener.ReadIndex(kIndex));
    if (index.shards.contains(name)) return index;
    opener.Warn(
        absl::StrFormat("%s is not named in %s beside it; it was "
                        "opened alone, as asked",
                        name, kIndex));
    return std::nullopt;
  }
  const std::optional<ShardName> shard = ParseShardName(name, kExtension);
  if (shard.has_value() && shard->count > 1) {
    return FileError(name,
                     absl::StrFormat("is one shard of %d; %s, which names the "
                                     "others, is not beside it",
                                     shard->count, kIndex));
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensors(
    const std::string& path) {
  const std::string folder = FolderOf(path);
  const std::string name = BaseName(path);
  FolderOpener opener(folder);
  ASSIGN_OR_RETURN(const std::optional<SafetensorsIndex> index,
                   FindIndex(folder, name, opener));
  RETURN_IF_ERROR(opener.ReadCompanions());
  RETURN_IF_ERROR(opener.ReadQuantization());
  RETURN_IF_ERROR(index.has_value() ? opener.OpenIndexed(*index)
                                    : opener.OpenWhole(name));
  return opener.Finish();
}

std::vector<std::string> SafetensorsCandidates(
    const std::vector<std::string>& names) {
  for (const std::string_view preferred : {kIndex, kWholeModel}) {
    if (std::ranges::find(names, preferred) != names.end()) {
      return {std::string(preferred)};
    }
  }
  std::vector<std::string> candidates;
  for (const std::string_view suffix : {kSafetensorsIndexSuffix, kExtension}) {
    std::ranges::copy_if(
        names, std::back_inserter(candidates),
        [suffix](const std::string& name) { return name.ends_with(suffix); });
    if (!candidates.empty()) break;
  }
  return candidates;
}

}  // namespace headrace
