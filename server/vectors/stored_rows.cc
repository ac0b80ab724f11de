#include "server/vectors/stored_rows.h"

#include <algorithm>
#include <cstddef>

namespace headrace {

const RowBlock* StoredRows::FindBlock(HookPoint hook, int32_t layer) const {
  const auto found =
      std::find_if(blocks.begin(), blocks.end(), [&](const RowBlock& block) {
        return block.hook == hook && block.layer == layer;
      });
  return found == blocks.end() ? nullptr : &*found;
}

std::span<const float> StoredRows::Find(HookPoint hook, int32_t layer,
                                        int64_t position) const {
  const RowBlock* block = FindBlock(hook, layer);
  if (block == nullptr) return {};
  const auto found = std::lower_bound(block->positions.begin(),
                                      block->positions.end(), position);
  if (found == block->positions.end() || *found != position) return {};
  const auto width = static_cast<size_t>(block->width);
  const auto row = static_cast<size_t>(found - block->positions.begin());
  return std::span(block->values).subspan(row * width, width);
}

int64_t StoredRows::value_count() const {
  size_t count = vector.size();
  for (const RowBlock& block : blocks) count += block.values.size();
  return static_cast<int64_t>(count);
}

}  // namespace headrace
