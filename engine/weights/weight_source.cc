#include "engine/weights/weight_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"
#include "engine/weights/file_path.h"
#include "engine/weights/gguf.h"
#include "engine/weights/gguf_reader.h"
#include "engine/weights/llama2c.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/safetensors.h"
#include "engine/weights/safetensors_index.h"
#include "engine/weights/safetensors_reader.h"

namespace headrace {
namespace {

struct Format {
  // Which file: by what is in it, else by the end of its name.
  bool (*matches)(std::span<const std::byte> file);
  std::vector<std::string_view> name_endings;
  absl::StatusOr<std::unique_ptr<WeightSource>> (*open)(
      const std::string& path);
  // Which of a folder's files could be opened; null: none by its name alone.
  std::vector<std::string> (*candidates)(const std::vector<std::string>& names);
};

const std::vector<Format>& Formats() {
  static const auto* const kFormats = new std::vector<Format>{
      {HasGgufMagic, {".gguf"}, OpenGguf, GgufCandidates},
      {LooksLikeSafetensors,
       {".safetensors", kSafetensorsIndexSuffix},
       OpenSafetensors,
       SafetensorsCandidates},
      {LooksLikeLlama2c, {".bin"}, OpenLlama2c, nullptr},
  };
  return *kFormats;
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenFile(
    const std::string& path) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  for (const Format& format : Formats()) {
    if (format.matches(file.bytes())) return format.open(path);
  }
  for (const Format& format : Formats()) {
    for (const std::string_view ending : format.name_endings) {
      if (path.ends_with(ending)) return format.open(path);
    }
  }
  const std::string_view head = file.text().substr(0, 8);
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: no model format begins with %s; GGUF, safetensors "
                      "and llama2.c checkpoints can be opened",
                      path, Quoted(head)));
}

// For folders without a telling file name: what is a model by its content.
std::vector<std::string> FindByContent(const std::string& folder,
                                       const std::vector<std::string>& names,
                                       const Format*& chosen) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const absl::StatusOr<MappedFile> file =
        MappedFile::Open(JoinPath(folder, name));
    if (!file.ok()) continue;
    for (const Format& format : Formats()) {
      if (!format.matches(file->bytes())) continue;
      found.push_back(name);
      chosen = &format;
      break;
    }
  }
  return found;
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenFolder(
    const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFiles(folder));
  std::vector<std::string> candidates;
  const Format* chosen = nullptr;
  for (const Format& format : Formats()) {
    if (format.candidates == nullptr) continue;
    for (std::string& name : format.candidates(names)) {
      candidates.push_back(std::move(name));
      chosen = &format;
    }
  }
  if (candidates.empty()) candidates = FindByContent(folder, names, chosen);
  if (candidates.empty()) {
    return absl::NotFoundError(absl::StrCat(
        folder, ": the folder has no GGUF, safetensors or llama2.c file"));
  }
  if (candidates.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder,
                     ": the folder has several models; give the path "
                     "of one: ",
                     absl::StrJoin(candidates, ", ")));
  }
  return chosen->open(JoinPath(folder, candidates.front()));
}

}  // namespace

void VisitBytes(const StoredTensor& tensor,
                absl::FunctionRef<void(std::span<const std::byte>)> visit) {
  const TensorView& view = tensor.view;
  if (view.maker == nullptr) {
    return visit({view.data, static_cast<size_t>(tensor.bytes)});
  }
  constexpr int64_t kRowsAtOnce = 64;
  const int64_t row_bytes = view.row_bytes();
  std::vector<std::byte> made(static_cast<size_t>(kRowsAtOnce * row_bytes));
  for (int64_t row = 0; row < view.dim(0); row += kRowsAtOnce) {
    const int64_t count = std::min(kRowsAtOnce, view.dim(0) - row);
    view.maker->MakeRows(row, count, made.data());
    visit(std::span(made).first(static_cast<size_t>(count * row_bytes)));
  }
  visit(std::as_bytes(view.order()));
}

const StoredTensor* WeightSource::Find(std::string_view name) const {
  const std::vector<StoredTensor>& all = tensors();
  const auto it =
      std::lower_bound(all.begin(), all.end(), name,
                       [](const StoredTensor& tensor, std::string_view wanted) {
                         return tensor.name < wanted;
                       });
  return it != all.end() && it->name == name ? &*it : nullptr;
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeightSource(
    const std::string& path) {
  return IsFolder(path) ? OpenFolder(path) : OpenFile(path);
}

}  // namespace headrace
