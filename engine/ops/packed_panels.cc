#include "engine/ops/packed_panels.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/block_formats.h"
#include "engine/tensor/quantized_format.h"

namespace headrace {
namespace {

using kernels::kPanelColumns;
using kernels::kStepBytes;
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
  const DTypeLayout layout = LayoutOf(part.dtype);
  if (in % layout.elements != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a weight of type ", std::string(layout.name), " has ", in,
                     " inputs; they must be a multiple of ", layout.elements));
  }
  if (FormatOf(part.dtype).row_scale && in > kernels::kMostInt8Inputs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a weight of type ", std::string(layout.name), " has ", in,
        " inputs; sums of 32 bits hold ", kernels::kMostInt8Inputs));
  }
  return absl::OkStatus();
}

// Some rows of consecutive parts of one type, which are one matrix: those of a
// panel, so that no more of a matrix whose rows are made is ever in memory.
class PanelRows {
 public:
  PanelRows(std::span<const TensorView> parts, int64_t first, int64_t count) {
    for (const TensorView& part : parts) {
      const int64_t begin = std::clamp(first, int64_t{0}, part.dim(0));
      const int64_t end = std::clamp(first + count, int64_t{0}, part.dim(0));
      if (begin < end) Add(part, begin, end - begin);
      first -= part.dim(0);
    }
  }

  // Of the first and those that follow it.
  const std::byte* row(int64_t index) const {
    return rows_[static_cast<size_t>(index)];
  }

 private:
  void Add(const TensorView& part, int64_t first, int64_t count) {
    const int64_t row_bytes = part.row_bytes();
    const std::byte* rows = nullptr;
    if (part.maker == nullptr) {
      rows = part.row(first);
    } else {
      std::vector<std::byte>& made =
          made_.emplace_back(static_cast<size_t>(count * row_bytes));
      part.maker->MakeRows(first, count, made.data());
      rows = made.data();
    }
    for (int64_t i = 0; i < count; ++i) rows_.push_back(rows + i * row_bytes);
  }

  std::vector<const std::byte*> rows_;
  std::vector<std::vector<std::byte>> made_;
};

void PackNumbers(const QuantizedFormat& format, const uint8_t* numbers,
                 int64_t column, std::byte* packed) {
  const int high_bits = kernels::HighBits(format);
  for (int k = 0; k < kGroupSize; ++k) {
    const int step = k / 4;
    const auto byte_of_row = [&](int row) -> std::byte& {
      return packed[row * kStepBytes + column * 4 + k % 4];
    };
    const auto number = static_cast<std::byte>(numbers[k]);
    const int row = kernels::PairRow(format, step / 2);
    if (format.bits == 8) {
      byte_of_row(row + step % 2) = number;
    } else {
      byte_of_row(row) |= (number & std::byte{15}) << step % 2 * 4;
    }
    if (high_bits > 0) {
      byte_of_row(kernels::HighBitsRow(format, step)) |=
          number >> 4 << step * high_bits % 8;
    }
  }
}

// Column `column` of a group and of its block. The panel is zero before.
void PackGroup(const QuantizedFormat& format, const StoredGroup& stored,
               int64_t column, std::byte* block, std::byte* group) {
  if (!format.row_scale) {
    std::memcpy(block + 2 * column, &stored.scale, 2);
  }
  if (format.zero_points) {
    block[2 * kPanelColumns + column] =
        static_cast<std::byte>(stored.minimum_factor);
  } else if (format.has_minimum) {
    std::memcpy(block + 2 * (kPanelColumns + column), &stored.minimum, 2);
  }
  if (format.groups_per_block > 1) {
    std::byte* factors = group + column;
    for (int i = 0; i < format.scales_per_group; ++i) {
      *factors = static_cast<std::byte>(stored.scale_factors[i]);
      factors += kPanelColumns;
    }
    if (format.has_minimum) {
      *factors = static_cast<std::byte>(stored.minimum_factor);
    }
  }
  PackNumbers(format, stored.numbers, column,
              group + kernels::GroupHeaderBytes(format));
}

// The header of a panel whose columns have a scale each, for one of them.
void PackRowScale(DType dtype, int64_t in, const std::byte* row, int64_t column,
                  std::byte* panel) {
  uint32_t sum = 0;  // of q; wraps
  StoredGroup stored;
  for (int64_t g = 0; g < in / kGroupSize; ++g) {
    stored = ReadGroup(dtype, row, g);
    for (const uint8_t number : stored.numbers) {
      sum += static_cast<uint32_t>(static_cast<int8_t>(number));
    }
  }
  sum *= kernels::kInt8RowOffset;
  std::memcpy(panel + 4 * column, &stored.row_scale, 4);
  std::memcpy(panel + 4 * (kPanelColumns + column), &sum, 4);
}

// Column `column` of the panel from one row of the matrix.
void PackColumn(DType dtype, int64_t in, const std::byte* row, int64_t column,
                std::byte* panel) {
  const DTypeLayout layout = LayoutOf(dtype);
  if (IsQuantized(dtype)) {
    const QuantizedFormat format = FormatOf(dtype);
    if (format.row_scale) PackRowScale(dtype, in, row, column, panel);
    for (int64_t g = 0; g < in / kGroupSize; ++g) {
      std::byte* block = panel + kernels::BlockOffset(format, g);
      PackGroup(format, ReadGroup(dtype, row, g), column, block,
                block + kernels::OffsetInBlock(format, g));
    }
    return;
  }
  for (int64_t k = 0; k < in; ++k) {
    std::memcpy(panel + (k * kPanelColumns + column) * layout.bytes,
                row + k * layout.bytes, layout.bytes);
  }
}

PackedRun PackRun(ThreadTeam& team, PackedMemory& memory,
                  std::span<const TensorView> parts) {
  const DType dtype = parts[0].dtype;
  const int64_t in = parts[0].dim(1);
  int64_t out = 0;
  for (const TensorView& part : parts) out += part.dim(0);
  const PackedRun shape = {.dtype = dtype, .in = in, .out = out, .data = {}};
  const int64_t panel_bytes = PanelBytes(dtype, in);
  return memory.Take(dtype, in, out, [&](std::byte* data) {
    team.ParallelFor(shape.num_panels(), [&](int64_t p, int /*thread_index*/) {
      const int64_t first = p * kPanelColumns;
      const int64_t columns = std::min(kPanelColumns, out - first);
      const PanelRows rows(parts, first, columns);
      for (int64_t c = 0; c < columns; ++c) {
        PackColumn(dtype, in, rows.row(c), c, data + p * panel_bytes);
      }
    });
  });
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
    const std::span<const int32_t> order = parts[0].order();
    while (count < parts.size() && parts[count].dtype == parts[0].dtype &&
           std::ranges::equal(parts[count].order(), order)) {
      ++count;
    }
    runs.push_back({PackRun(team, memory, parts.first(count)),
                    column,
                    {order.begin(), order.end()}});
    column += runs.back().out;
    parts = parts.subspan(count);
  }
  return runs;
}

}  // namespace headrace
