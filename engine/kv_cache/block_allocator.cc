#include "engine/kv_cache/block_allocator.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/log/check.h"

namespace headrace {

BlockAllocator::BlockAllocator(int64_t num_blocks)
    : references_(static_cast<size_t>(num_blocks), 0) {
  free_.resize(references_.size());
  std::iota(free_.begin(), free_.end(), 0);  // ascending, and so a heap
}

int32_t BlockAllocator::Allocate() {
  CHECK(!free_.empty()) << "no free block of " << num_blocks();
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const int32_t block = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockAllocator::AddReference(int32_t block) {
  CHECK_GT(references(block), 0) << "block " << block << " is free";
  ++references_[static_cast<size_t>(block)];
}

void BlockAllocator::Release(int32_t block) {
  CHECK_GT(references(block), 0) << "block " << block << " is free";
  if (--references_[static_cast<size_t>(block)] > 0) return;
  free_.push_back(block);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

int32_t BlockAllocator::references(int32_t block) const {
  CHECK_GE(block, 0);
  CHECK_LT(block, num_blocks());
  return references_[static_cast<size_t>(block)];
}

}  // namespace headrace
