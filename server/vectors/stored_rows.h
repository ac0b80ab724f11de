// What the server keeps for later requests: a vector, or rows of a pass.
#ifndef HEADRACE_SERVER_VECTORS_STORED_ROWS_H_
#define HEADRACE_SERVER_VECTORS_STORED_ROWS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "engine/capture/row_source.h"
#include "engine/model/hook_point.h"
#include "server/vectors/byte_quota.h"

namespace headrace {

// Rows of one hook and layer.
struct RowBlock {
  HookPoint hook = HookPoint::kEmbed;
  int32_t layer = -1;  // -1 where the hook has none
  int64_t width = 0;
  std::vector<int64_t> positions;  // ascending
  std::vector<float> values;       // [positions.size(), width]
};

// Immutable once it is stored; whoever uses it shares it.
struct StoredRows final : RowSource {
  std::vector<float> vector;     // a vector's values; else empty
  std::vector<RowBlock> blocks;  // rows of a pass, ascending by hook and layer
  Reservation bytes;             // of the store's quota, while anybody has this

  // Null when nothing of that hook and layer was kept.
  const RowBlock* FindBlock(HookPoint hook, int32_t layer) const;
  std::span<const float> Find(HookPoint hook, int32_t layer,
                              int64_t position) const override;
  int64_t value_count() const;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_VECTORS_STORED_ROWS_H_
