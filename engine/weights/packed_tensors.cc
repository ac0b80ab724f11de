#include "engine/weights/packed_tensors.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"

namespace headrace {
namespace {

struct PartKind {
  std::string_view suffix;
  const RawTensor* PackedParts::* part;
};
constexpr PartKind kPartsOfColumns[] = {{".qweight", &PackedParts::qweight},
                                        {".qzeros", &PackedParts::qzeros},
                                        {".scales", &PackedParts::scales},
                                        {".g_idx", &PackedParts::g_idx}};
constexpr PartKind kPartsOfRows[] = {
    {".weight", &PackedParts::qweight},
    {".weight_packed", &PackedParts::qweight},
    {".weight_zero_point", &PackedParts::qzeros},
    {".weight_scale", &PackedParts::scales},
    {".weight_g_idx", &PackedParts::g_idx},
    {".weight_shape", &PackedParts::shape}};

const PartKind* KindOf(const QuantizationConfig& config, std::string_view name,
                       std::string_view dtype_name) {
  const bool rows = config.order == WordOrder::kRows;
  for (const PartKind& kind : rows ? std::span<const PartKind>(kPartsOfRows)
                                   : std::span(kPartsOfColumns)) {
    if (!name.ends_with(kind.suffix)) continue;
    // Modules that were not converted have theirs as floats.
    const bool floats =
        dtype_name == "F32" || dtype_name == "F16" || dtype_name == "BF16";
    return kind.suffix == ".weight" && floats ? nullptr : &kind;
  }
  return nullptr;
}

absl::Status AddMatrix(const std::string& module, const PackedParts& stored,
                       const QuantizationConfig& config, SourceParts& parts) {
  ASSIGN_OR_RETURN(std::unique_ptr<PackedMatrix> matrix,
                   PackedMatrix::Create(module, stored, config));
  const std::string name = module + ".weight";
  const TensorView view = matrix->view();
  if (!matrix->why_float().empty()) {
    parts.warnings.push_back(absl::StrFormat(
        "tensor %s is kept in float32, %d bytes instead of %d, and computed "
        "in exact numerics: %s",
        name, view.dim(0) * view.row_bytes(),
        NumElements(stored.qweight->shape) *
            (stored.qweight->dtype_name == "I8" ? 1 : 4),
        matrix->why_float()));
  }
  parts.tensors.push_back({.name = name,
                           .view = view,
                           .bytes = view.dim(0) * view.row_bytes(),
                           .location = stored.qweight->location});
  parts.makers.push_back(std::move(matrix));
  return absl::OkStatus();
}

}  // namespace

bool IsPackedPart(const QuantizationConfig& config, std::string_view name,
                  std::string_view dtype_name) {
  return KindOf(config, name, dtype_name) != nullptr;
}

absl::Status AddPackedTensors(std::span<const RawTensor> tensors,
                              const QuantizationConfig& config,
                              SourceParts& parts) {
  std::map<std::string, PackedParts> modules;
  for (const RawTensor& tensor : tensors) {
    const PartKind* kind = KindOf(config, tensor.name, tensor.dtype_name);
    if (kind == nullptr) continue;
    const RawTensor*& part = modules[tensor.name.substr(
                                 0, tensor.name.size() - kind->suffix.size())].*
                             (kind->part);
    if (part != nullptr) {
      return FileError(tensor.location,
                       absl::StrFormat("tensor %s is also at %s; names are "
                                       "unique",
                                       Quoted(tensor.name), part->location));
    }
    part = &tensor;
  }
  for (const auto& [module, stored] : modules) {
    RETURN_IF_ERROR(AddMatrix(module, stored, config, parts));
  }
  return absl::OkStatus();
}

}  // namespace headrace
