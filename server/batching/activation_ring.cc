#include "server/batching/activation_ring.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/checksum/crc32c.h"
#include "server/batching/wire_rows.h"

namespace headrace {

namespace {

int64_t RingCost(const HookLayout& hook) {
  return hook.row_bytes + kRowOverheadBytes;
}

}  // namespace

ActivationRing::ActivationRing(const CaptureLayout& layout,
                               absl::flat_hash_map<RowKey, int64_t> received)
    : layout_(layout), received_(std::move(received)) {
  for (const HookLayout& hook : layout_.hooks) {
    rows_taken_.push_back({.derived = hook.derived, .hook = hook.hook});
  }
}

void ActivationRing::Add(int32_t choice, const CapturedRow& row) {
  const RowKey rows{choice, row.derived, row.hook, row.layer, row.head};
  if (WasReceived(rows)) return;
  const Key key{rows, row.phase};
  const HookLayout& hook = layout_.Get(row.derived, row.hook);
  ActivationChunk& chunk =
      UnfinishedChunk(key, hook, static_cast<int64_t>(row.values.size()));
  const size_t begin = chunk.data.size();
  AppendWireRow(row.values, chunk);
  chunk.ids.insert(chunk.ids.end(), row.ids.begin(), row.ids.end());
  chunk.positions.push_back(row.position);
  chunk.tokens.push_back(row.token);
  if (row.head >= 0) {
    chunk.key_starts.push_back(row.key_start);
    chunk.key_counts.push_back(row.key_count);
  }
  if (row.rows_averaged > 0) chunk.rows_averaged.push_back(row.rows_averaged);
  chunk.crc32c =
      ExtendCrc32c(chunk.crc32c, std::string_view(chunk.data).substr(begin));
  used_bytes_ += RingCost(hook);
  open_gap_.erase(choice);

  if (static_cast<int64_t>(chunk.positions.size()) == hook.rows_per_chunk) {
    FinishChunk(key);
  }
}

void ActivationRing::FinishChunk(const Key& key) {
  finished_.push_back(std::move(unfinished_.at(key)));
  unfinished_.erase(key);
  std::erase(unfinished_order_, key);
}

bool ActivationRing::WasReceived(const RowKey& rows) {
  if (received_.empty()) return false;
  const auto left = received_.find(rows);
  if (left == received_.end() || left->second == 0) return false;
  --left->second;
  return true;
}

ActivationChunk& ActivationRing::UnfinishedChunk(const Key& key,
                                                 const HookLayout& hook,
                                                 int64_t width) {
  // Rows by key grow wider with their position, and never narrower again.
  if (const auto narrower = unfinished_.find(key);
      narrower != unfinished_.end() && narrower->second.width != width) {
    FinishChunk(key);
  }
  const auto [found, inserted] = unfinished_.try_emplace(key);
  ActivationChunk& chunk = found->second;
  if (inserted) {
    unfinished_order_.push_back(key);
    chunk.choice = key.rows.choice;
    chunk.derived = key.rows.derived;
    chunk.hook = key.rows.hook;
    chunk.layer = key.rows.layer;
    chunk.head = key.rows.head;
    chunk.phase = key.phase;
    chunk.dtype = hook.dtype;
    chunk.width = width;
    chunk.compression = layout_.compression;
    // Growing would copy a prompt's rows twice; it seldom has fewer.
    if (key.phase == Phase::kPrompt) {
      chunk.data.reserve(
          static_cast<size_t>(hook.rows_per_chunk * hook.row_bytes));
    }
  }
  return chunk;
}

void ActivationRing::AddGap(const RowGap& gap) {
  const auto [open, inserted] = open_gap_.try_emplace(gap.choice, gaps_.size());
  if (!inserted && gaps_[open->second].cached == gap.cached) {
    RowGap& last = gaps_[open->second];
    last.last_position = std::max(last.last_position, gap.last_position);
    return;
  }
  open->second = gaps_.size();
  gaps_.push_back(gap);
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
  open_gap_.clear();
  return std::exchange(gaps_, {});
}

}  // namespace headrace
