#include "engine/ops/packed_panels.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace headrace {
namespace {

using kernels::GroupBytes;
using kernels::GroupHeaderBytes;
using kernels::IsNibbles;
using kernels::IsQuantized;
using kernels::kGroupSize;
using kernels::kPanelColumns;
using kernels::PanelBytes;

absl::Status CheckPart(const TensorView& part, int64_t in) {
  if (part.shape.size() != 2 || part.dim(0) < 1 || part.dim(1) < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a weight has shape ", ShapeToString(part.shape),
                     "; it must be a matrix [out, in]"));
  }
  if (part.dim(1) != in) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weights of one product take ", in, " and ", part.dim(1), " inputs"));
  }
  if (IsQuantized(part.dtype) && in % kGroupSize != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a weight of type ", std::string(LayoutOf(part.dtype).name), " has ",
        in, " inputs; they must be a multiple of ", kGroupSize));
  }
  return absl::OkStatus();
}

// Consecutive parts of one type, addressed as one matrix.
class StackedRows {
 public:
  explicit StackedRows(std::span<const TensorView> parts) : parts_(parts) {}

  const std::byte* row(int64_t index) const {
    for (const TensorView& part : parts_) {
      if (index < part.dim(0)) return part.row(index);
      index -= part.dim(0);
    }
    return nullptr;  // padding
  }

 private:
  std::span<const TensorView> parts_;
};

// Column `column` of a group from one block, laid out as in ggml-common.h of
// ggml (2025-02): scale, minimum if any, then the numbers; of nibbles, the low
// halves are the first 16 values and the high halves the others.
void PackGroup(DType dtype, const std::byte* block, int64_t column,
               std::byte* group) {
  std::memcpy(group + 2 * column, block, 2);
  block += 2;
  if (kernels::HasMinimum(dtype)) {
    std::memcpy(group + 2 * (kPanelColumns + column), block, 2);
    block += 2;
  }
  const auto* numbers = reinterpret_cast<const uint8_t*>(block);
  auto* packed = reinterpret_cast<uint8_t*>(group + GroupHeaderBytes(dtype));
  if (!IsNibbles(dtype)) {
    for (int64_t k = 0; k < kGroupSize; ++k) {
      packed[(k / 4 * kPanelColumns + column) * 4 + k % 4] =
          numbers[k] ^ 0x80;  // q + 128
    }
    return;
  }
  constexpr int64_t kHalf = kGroupSize / 2;
  uint8_t values[kGroupSize];
  for (int64_t k = 0; k < kHalf; ++k) {
    values[k] = numbers[k] & 15;
    values[k + kHalf] = numbers[k] >> 4;
  }
  for (int64_t pair = 0; pair < kGroupSize / 8; ++pair) {
    uint8_t* bytes = packed + (pair * kPanelColumns + column) * 4;
    for (int64_t i = 0; i < 4; ++i) {
      bytes[i] = static_cast<uint8_t>(values[8 * pair + i] |
                                      values[8 * pair + 4 + i] << 4);
    }
  }
}

// Column `column` of the panel from one row of the matrix.
void PackColumn(DType dtype, int64_t in, const std::byte* row, int64_t column,
                std::byte* panel) {
  const DTypeLayout layout = LayoutOf(dtype);
  if (IsQuantized(dtype)) {
    for (int64_t g = 0; g < in / kGroupSize; ++g) {
      PackGroup(dtype, row + g * layout.bytes, column,
                panel + g * GroupBytes(dtype));
    }
    return;
  }
  for (int64_t k = 0; k < in; ++k) {
    std::memcpy(panel + (k * kPanelColumns + column) * layout.bytes,
                row + k * layout.bytes, layout.bytes);
  }
}

PackedPanels PackRun(ThreadTeam& team, PackedMemory& memory,
                     std::span<const TensorView> parts) {
  PackedPanels run;
  run.dtype = parts[0].dtype;
  run.in = parts[0].dim(1);
  for (const TensorView& part : parts) run.out += part.dim(0);
  const int64_t panel_bytes = PanelBytes(run.dtype, run.in);
  const std::shared_ptr<std::byte> data =
      memory.Allocate(static_cast<size_t>(run.bytes()));
  run.data = data;
  const StackedRows rows(parts);
  team.ParallelFor(run.num_panels(), [&](int64_t p, int /*thread_index*/) {
    std::byte* panel = data.get() + p * panel_bytes;
    const int64_t first = p * kPanelColumns;
    const int64_t columns = std::min(kPanelColumns, run.out - first);
    for (int64_t c = 0; c < columns; ++c) {
      PackColumn(run.dtype, run.in, rows.row(first + c), c, panel);
    }
  });
  return run;
}

}  // namespace

absl::StatusOr<std::vector<PackedPanels>> PackPanels(
    ThreadTeam& team, PackedMemory& memory, std::span<const TensorView> parts) {
  if (parts.empty()) {
    return absl::InvalidArgumentError("a product has no weights");
  }
  for (const TensorView& part : parts) {
    const int64_t in =
        parts[0].shape.size() == 2 ? parts[0].dim(1) : int64_t{0};
    RETURN_IF_ERROR(CheckPart(part, in));
  }
  std::vector<PackedPanels> runs;
  int64_t column = 0;
  while (!parts.empty()) {
    size_t count = 1;
    while (count < parts.size() && parts[count].dtype == parts[0].dtype) {
      ++count;
    }
    runs.push_back(PackRun(team, memory, parts.first(count)));
    runs.back().first_column = column;
    column += runs.back().out;
    parts = parts.subspan(count);
  }
  return runs;
}

}  // namespace headrace
