#include "server/batching/activation_ring.h"

#include <algorithm>
#include <utility>

#include "absl/crc/crc32c.h"
#include "absl/strings/string_view.h"
#include "server/batching/wire_rows.h"

namespace headrace {

namespace {

// Past so many gaps the last one of each hook and layer grows over delivered
// rows too: memory stays bounded whatever the reader does.
constexpr size_t kMaxGaps = 100'000;

int64_t RingCost(const HookLayout& hook) {
  return hook.row_bytes + kRowOverheadBytes;
}

}  // namespace

ActivationRing::ActivationRing(const CaptureLayout& layout) : layout_(layout) {
  for (const HookLayout& hook : layout_.hooks) {
    rows_taken_.push_back({.derived = hook.derived, .hook = hook.hook});
  }
}

void ActivationRing::Add(int32_t choice, const CapturedRow& row) {
  const Key key{choice, row.derived, row.hook, row.layer, row.phase};
  const HookLayout& hook = layout_.Get(row.derived, row.hook);
  ActivationChunk& chunk = UnfinishedChunk(key, hook);
  const size_t begin = chunk.data.size();
  AppendWireRow(row.values, chunk);
  chunk.ids.insert(chunk.ids.end(), row.ids.begin(), row.ids.end());
  chunk.positions.push_back(row.position);
  chunk.tokens.push_back(row.token);
  chunk.crc32c = static_cast<uint32_t>(
      absl::ExtendCrc32c(absl::crc32c_t{chunk.crc32c},
                         absl::string_view(chunk.data).substr(begin)));
  used_bytes_ += RingCost(hook);
  const auto gap = last_gap_.find({choice, row.derived, row.hook, row.layer});
  if (gap != last_gap_.end()) gap->second.open = false;

  if (static_cast<int64_t>(chunk.positions.size()) == hook.rows_per_chunk) {
    finished_.push_back(std::move(chunk));
    unfinished_.erase(key);
    std::erase(unfinished_order_, key);
  }
}

ActivationChunk& ActivationRing::UnfinishedChunk(const Key& key,
                                                 const HookLayout& hook) {
  const auto [found, inserted] = unfinished_.try_emplace(key);
  ActivationChunk& chunk = found->second;
  if (inserted) {
    unfinished_order_.push_back(key);
    chunk.choice = key.choice;
    chunk.derived = key.derived;
    chunk.hook = key.hook;
    chunk.layer = key.layer;
    chunk.phase = key.phase;
    chunk.dtype = hook.dtype;
    chunk.width = hook.width;
  }
  return chunk;
}

void ActivationRing::AddGap(int32_t choice, const CapturedRow& row) {
  const Key key{choice, row.derived, row.hook, row.layer};
  const auto [last, inserted] = last_gap_.try_emplace(key);
  if (!inserted && (last->second.open || gaps_.size() >= kMaxGaps)) {
    gaps_[last->second.index].last_position = row.position;
    return;
  }
  last->second = {.index = gaps_.size(), .open = true};
  gaps_.push_back({.derived = row.derived,
                   .hook = row.hook,
                   .layer = row.layer,
                   .first_position = row.position,
                   .last_position = row.position});
}

bool ActivationRing::HasChunk() const {
  return !finished_.empty() ||
         std::any_of(unfinished_order_.begin(), unfinished_order_.end(),
                     [this](const Key& key) { return MayTake(key); });
}

std::optional<ActivationChunk> ActivationRing::TakeChunk() {
  if (!finished_.empty()) {
    ActivationChunk chunk = std::move(finished_.front());
    finished_.pop_front();
    return Release(std::move(chunk));
  }
  const auto oldest =
      std::find_if(unfinished_order_.begin(), unfinished_order_.end(),
                   [this](const Key& key) { return MayTake(key); });
  if (oldest == unfinished_order_.end()) return std::nullopt;
  const auto found = unfinished_.find(*oldest);
  ActivationChunk chunk = std::move(found->second);
  unfinished_.erase(found);
  unfinished_order_.erase(oldest);
  return Release(std::move(chunk));
}

ActivationChunk ActivationRing::Release(ActivationChunk chunk) {
  const auto rows = static_cast<int64_t>(chunk.positions.size());
  used_bytes_ -= rows * RingCost(layout_.Get(chunk.derived, chunk.hook));
  chunk.sequence_number = next_sequence_number_++;
  for (HookRowCount& count : rows_taken_) {
    if (count.derived == chunk.derived && count.hook == chunk.hook) {
      count.rows += rows;
    }
  }
  return chunk;
}

void ActivationRing::Clear() {
  unfinished_.clear();
  unfinished_order_.clear();
  finished_.clear();
  used_bytes_ = 0;
}

std::vector<RowGap> ActivationRing::TakeGaps() {
  last_gap_.clear();
  return std::exchange(gaps_, {});
}

}  // namespace headrace
