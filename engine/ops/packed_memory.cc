#include "engine/ops/packed_memory.h"

#include <algorithm>

namespace headrace {
namespace {

constexpr size_t kAlignment = AlignedBuffer<std::byte>::kAlignment;
// The first piece; each further one doubles, up to the largest.
constexpr size_t kSmallestPiece = size_t{2} << 20;
constexpr size_t kLargestPiece = size_t{64} << 20;

}  // namespace

std::shared_ptr<std::byte> PackedMemory::Allocate(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (piece_ == nullptr || piece_->size() - used_ < bytes) {
    const size_t next = piece_ == nullptr
                            ? kSmallestPiece
                            : std::min(2 * piece_->size(), kLargestPiece);
    piece_ = std::make_shared<AlignedBuffer<std::byte>>(std::max(next, bytes));
    used_ = 0;
  }
  std::byte* data = piece_->data() + used_;
  used_ += bytes;
  return {piece_, data};
}

}  // namespace headrace
