// Who holds which block of the cache: a fixed pool of block numbers with
// counted references. Knows nothing of keys, values or tokens.
#ifndef HEADRACE_ENGINE_KV_CACHE_BLOCK_ALLOCATOR_H_
#define HEADRACE_ENGINE_KV_CACHE_BLOCK_ALLOCATOR_H_

#include <cstdint>
#include <vector>

namespace headrace {

// Thread-compatible. A misuse (a reference to a free block, one release too
// many) is a bug of ours and stops the program.
class BlockAllocator {
 public:
  // Blocks are numbered from 0.
  explicit BlockAllocator(int64_t num_blocks);

  int64_t num_blocks() const {
    return static_cast<int64_t>(references_.size());
  }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }

  // Takes the free block of the lowest number, with one reference: neighbours
  // are read faster. There must be one.
  int32_t Allocate();

  // One more, or one fewer, holder of a block that is in use. The last release
  // frees the block.
  void AddReference(int32_t block);
  void Release(int32_t block);

  // 0 for a free block.
  int32_t references(int32_t block) const;

 private:
  std::vector<int32_t> references_;
  std::vector<int32_t> free_;  // a heap, the lowest number on top
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_KV_CACHE_BLOCK_ALLOCATOR_H_
