#include "engine/weights/mapped_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/dtype.h"
#include "engine/weights/file_error.h"
#include "engine/weights/mapped_file.h"
#include "engine/weights/weight_source.h"

namespace headrace {
namespace {

// Elements of F32 are read as floats; blocks hold 16-bit scales.
uintptr_t AlignmentOf(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

class MappedSource final : public WeightSource {
 public:
  explicit MappedSource(SourceParts parts) : parts_(std::move(parts)) {
    for (StoredTensor& tensor : parts_.tensors) Realign(tensor);
  }

  WeightFormat format() const override { return parts_.format; }
  std::string format_name() const override { return parts_.format_name; }
  const std::vector<StoredTensor>& tensors() const override {
    return parts_.tensors;
  }
  const nlohmann::ordered_json& metadata() const override {
    return parts_.metadata;
  }
  void DropMetadata() override {
    parts_.metadata = nlohmann::ordered_json::object();
  }
  const std::vector<std::string>& warnings() const override {
    return parts_.warnings;
  }
  std::vector<FileState> file_states() const override {
    std::vector<FileState> states;
    for (const MappedFile& file : parts_.files) {
      const struct stat& state = file.state();
      states.push_back({.size = state.st_size,
                        .inode = state.st_ino,
                        .modified = absl::TimeFromTimespec(state.st_mtim),
                        .changed = absl::TimeFromTimespec(state.st_ctim)});
    }
    return states;
  }
  void ReleasePages() const override {
    for (const MappedFile& file : parts_.files) file.ReleasePages();
  }

 private:
  // A safetensors header of odd length puts every float at an odd address;
  // such a tensor is copied once, here.
  void Realign(StoredTensor& tensor) {
    const auto address = reinterpret_cast<uintptr_t>(tensor.view.data);
    if (address % AlignmentOf(tensor.view.dtype) == 0) return;
    AlignedBuffer<std::byte> copy(static_cast<size_t>(tensor.bytes));
    if (copy.empty()) return;
    std::memcpy(copy.data(), tensor.view.data, copy.size());
    tensor.view.data = copy.data();
    copies_.push_back(std::move(copy));
  }

  SourceParts parts_;
  std::vector<AlignedBuffer<std::byte>> copies_;
};

}  // namespace

void AddStoredTensor(const MappedFile& file, uint64_t offset, int64_t bytes,
                     std::string name, TensorView view, SourceParts& parts) {
  view.data = file.bytes().data() + offset;
  parts.tensors.push_back(
      {.name = std::move(name),
       .view = std::move(view),
       .bytes = bytes,
       .location = absl::StrFormat("%s: offset %d", file.name(), offset)});
}

absl::StatusOr<std::unique_ptr<WeightSource>> MakeMappedSource(
    SourceParts parts) {
  const auto by_name = [](const StoredTensor& a, const StoredTensor& b) {
    return a.name < b.name;
  };
  const auto same_name = [](const StoredTensor& a, const StoredTensor& b) {
    return a.name == b.name;
  };
  auto& tensors = parts.tensors;
  std::stable_sort(tensors.begin(), tensors.end(), by_name);
  const auto twin =
      std::adjacent_find(tensors.begin(), tensors.end(), same_name);
  if (twin != tensors.end()) {
    return absl::DataLossError(
        absl::StrFormat("%s: tensor %s is also at %s; names are unique",
                        twin[1].location, Quoted(twin->name), twin->location));
  }
  for (const MappedFile& file : parts.files) {
    RETURN_IF_ERROR(file.CheckUnchanged());
  }
  return std::make_unique<MappedSource>(std::move(parts));
}

}  // namespace headrace
