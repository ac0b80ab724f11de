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

KvLayout LayoutOf(const KvShape& shape) {
  return {.num_key_value_heads = shape.num_key_value_heads,
          .head_dim = shape.head_dim,
          .block_size = shape.block_size,
          .dtype = shape.dtype};
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
  if (shape.block_size % KvLayout::kPositionsPerLine != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "KV block size is ", shape.block_size,
        " rows; it must be a multiple of ", KvLayout::kPositionsPerLine));
  }
  if (IsInteger(shape.dtype) && shape.head_dim > KvLayout::kMaxIntegerHeadDim) {
    return absl::InvalidArgumentError(absl::StrCat(
        "keys and values as integers, and heads of ", shape.head_dim,
        "; integers take at most ", KvLayout::kMaxIntegerHeadDim));
  }
  constexpr int64_t kMostBlocks = std::numeric_limits<int32_t>::max();
  if (num_blocks < 1 || num_blocks > kMostBlocks) {
    return absl::InvalidArgumentError(
        absl::StrCat("KV cache of ", num_blocks, " blocks; it must be in [1, ",
                     kMostBlocks, "]"));
  }
  // Where sizes would no longer fit an int64_t, memory has long ended.
  constexpr double kMostBytes = 1e15;
  const double bytes =
      2.0 * static_cast<double>(LayoutOf(shape).block_bytes()) *
      static_cast<double>(shape.num_key_value_heads) *
      static_cast<double>(shape.num_layers) * static_cast<double>(num_blocks);
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
  const auto bytes = static_cast<size_t>(
      shape.num_layers * LayoutOf(shape).layer_bytes(num_blocks));
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KV cache of ", num_blocks, " blocks needs ", bytes,
                     " bytes: ", std::strerror(errno)));
  }
  madvise(base, bytes, MADV_HUGEPAGE);  // a hint; failure is harmless
  return PagedKvStorage(shape, num_blocks, static_cast<std::byte*>(base));
}

PagedKvStorage::PagedKvStorage(const KvShape& shape, int64_t num_blocks,
                               std::byte* base)
    : num_layers_(shape.num_layers),
      layout_(LayoutOf(shape)),
      num_blocks_(num_blocks),
      base_(base) {}

PagedKvStorage::~PagedKvStorage() {
  if (base_ != nullptr) munmap(base_, mapping_bytes());
}

PagedKvStorage::PagedKvStorage(PagedKvStorage&& other) noexcept
    : num_layers_(other.num_layers_),
      layout_(other.layout_),
      num_blocks_(other.num_blocks_),
      base_(std::exchange(other.base_, nullptr)) {}

PagedKvStorage& PagedKvStorage::operator=(PagedKvStorage&& other) noexcept {
  std::swap(num_layers_, other.num_layers_);
  std::swap(layout_, other.layout_);
  std::swap(num_blocks_, other.num_blocks_);
  std::swap(base_, other.base_);
  return *this;
}

size_t PagedKvStorage::mapping_bytes() const {
  return static_cast<size_t>(num_layers_ * layout_.layer_bytes(num_blocks_));
}

int64_t PagedKvStorage::BytesPerBlock(const KvShape& shape) {
  return shape.num_layers * shape.num_key_value_heads * 2 *
         LayoutOf(shape).block_bytes();
}

}  // namespace headrace
