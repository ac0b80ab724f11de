#include "engine/kv_cache/paged_kv_storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/log/check.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

constexpr int64_t kLine = 16;  // keys and values are read 16 at a time

int64_t ValueRowStride(const KvShape& shape) {
  return (shape.head_dim + kLine - 1) / kLine * kLine;
}

int64_t HeadStride(const KvShape& shape) {
  return shape.block_size * (shape.head_dim + ValueRowStride(shape));
}

size_t TotalBytes(const KvShape& shape, int64_t num_blocks) {
  return static_cast<size_t>(PagedKvStorage::BytesPerBlock(shape) * num_blocks);
}

absl::Status CheckShape(const KvShape& shape, int64_t num_blocks) {
  constexpr int64_t kMost = int64_t{1} << 20;  // of each dimension
  for (const int64_t dimension : {shape.num_layers, shape.num_key_value_heads,
                                  shape.head_dim, shape.block_size}) {
    if (dimension < 1 || dimension > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("KV cache of ", shape.num_layers, " layers, ",
                       shape.num_key_value_heads, " heads of ", shape.head_dim,
                       " and blocks of ", shape.block_size,
                       " rows: each must be in [1, ", kMost, "]"));
    }
  }
  if (shape.block_size % kLine != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("KV block size is ", shape.block_size,
                     " rows; it must be a multiple of ", kLine));
  }
  constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();
  if (num_blocks < 1 || num_blocks > kMostBlocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("KV cache of ", num_blocks, " blocks; it must be in [1, ",
                     kMostBlocks, "]"));
  }
  // Where sizes would no longer fit an int64_t, memory has long ended.
  constexpr double kMostBytes = 1e15;
  const double bytes = static_cast<double>(HeadStride(shape)) * sizeof(float) *
                       static_cast<double>(shape.num_key_value_heads) *
                       static_cast<double>(shape.num_layers) *
                       static_cast<double>(num_blocks);
  if (bytes > kMostBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache of ", num_blocks, " blocks needs ", bytes,
                     " bytes; no machine has them"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PagedKvStorage> PagedKvStorage::Create(const KvShape& shape,
                                                      int64_t num_blocks) {
  absl::Status status = CheckShape(shape, num_blocks);
  if (!status.ok()) return status;
  const size_t bytes = TotalBytes(shape, num_blocks);
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache of ", num_blocks, " blocks needs ", bytes,
                     " bytes: ", std::strerror(errno)));
  }
  madvise(base, bytes, MADV_HUGEPAGE);  // a hint; failure is harmless
  return PagedKvStorage(shape, num_blocks, static_cast<float*>(base));
}

PagedKvStorage::PagedKvStorage(const KvShape& shape, int64_t num_blocks,
                               float* base)
    : shape_(shape), num_blocks_(num_blocks), base_(base) {}

PagedKvStorage::~PagedKvStorage() {
  if (base_ != nullptr) munmap(base_, TotalBytes(shape_, num_blocks_));
}

PagedKvStorage::PagedKvStorage(PagedKvStorage&& other) noexcept
    : shape_(other.shape_),
      num_blocks_(other.num_blocks_),
      base_(std::exchange(other.base_, nullptr)) {}

PagedKvStorage& PagedKvStorage::operator=(PagedKvStorage&& other) noexcept {
  std::swap(shape_, other.shape_);
  std::swap(num_blocks_, other.num_blocks_);
  std::swap(base_, other.base_);
  return *this;
}

int64_t PagedKvStorage::BytesPerBlock(const KvShape& shape) {
  return shape.num_layers * shape.num_key_value_heads * HeadStride(shape) *
         static_cast<int64_t>(sizeof(float));
}

int64_t PagedKvStorage::value_row_stride() const {
  return ValueRowStride(shape_);
}

int64_t PagedKvStorage::head_stride() const { return HeadStride(shape_); }

int64_t PagedKvStorage::block_stride() const {
  return shape_.num_key_value_heads * head_stride();
}

const float* PagedKvStorage::keys(int64_t layer) const {
  return base_ + layer * num_blocks_ * block_stride();
}

const float* PagedKvStorage::values(int64_t layer) const {
  return keys(layer) + shape_.head_dim * shape_.block_size;
}

void PagedKvStorage::WriteRows(int64_t layer, const KvRows& rows) {
  CHECK_GE(static_cast<int64_t>(rows.block_table.size()) * shape_.block_size,
           rows.first_position + rows.num_rows);
  float* layer_base = base_ + layer * num_blocks_ * block_stride();
  const int64_t head_dim = shape_.head_dim;
  const int64_t block_size = shape_.block_size;
  for (int64_t row = 0; row < rows.num_rows;) {
    const int64_t position = rows.first_position + row;
    const int64_t offset = position % block_size;
    const int64_t count = std::min(block_size - offset, rows.num_rows - row);
    const int64_t block =
        rows.block_table[static_cast<size_t>(position / block_size)];
    for (int64_t head = 0; head < shape_.num_key_value_heads; ++head) {
      float* keys = layer_base + block * block_stride() + head * head_stride();
      float* values =
          keys + head_dim * block_size + offset * value_row_stride();
      const float* k = rows.k + row * rows.k_row_stride + head * head_dim;
      const float* v = rows.v + row * rows.v_row_stride + head * head_dim;
      for (int64_t d = 0; d < head_dim; ++d) {
        for (int64_t i = 0; i < count; ++i) {
          keys[d * block_size + offset + i] = k[i * rows.k_row_stride + d];
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(v + i * rows.v_row_stride, head_dim,
                    values + i * value_row_stride());
      }
    }
    row += count;
  }
}

}  // namespace headrace
