// Captured rows of one request between the batch loop and its reader: narrowed
// to the wire type, grouped into chunks per choice, hook, layer, head and
// phase.
//
// Prompt rows wait until their chunk is full or the prompt is done; rows of
// generated tokens can be taken at once, and gather only while the reader is
// busy. The ring never grows past its layout's ring_bytes, because the
// scheduler admits a step's rows only when there is room for them.
#ifndef HEADRACE_SERVER_BATCHING_ACTIVATION_RING_H_
#define HEADRACE_SERVER_BATCHING_ACTIVATION_RING_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/batching/capture_layout.h"
#include "server/batching/events.h"
#include "server/batching/stream_cursor.h"

namespace headrace {

// Thread-compatible: EventStream guards it.
class ActivationRing {
 public:
  // `received`: rows that the reader has, of each key; they are not given out
  // again.
  explicit ActivationRing(const CaptureLayout& layout,
                          absl::flat_hash_map<RowKey, int64_t> received = {});

  void Add(int32_t choice, const CapturedRow& row);
  // Notes that rows from the first to the last selected position were left out.
  // Gaps that no row of the choice came between are one.
  void AddGap(const RowGap& gap);
  // No prompt row comes any more: unfinished prompt chunks may be taken.
  void FlushPrompt() { prompt_done_ = true; }

  bool HasChunk() const;
  // The chunk that was finished first, else the oldest unfinished one that may
  // be taken.
  std::optional<ActivationChunk> TakeChunk();
  // Forgets all rows.
  void Clear();

  int64_t used_bytes() const { return used_bytes_; }
  // What is left when the room for the choices' ends is not touched.
  int64_t free_bytes() const { return layout_.ring_bytes - used_bytes_; }
  // Rows taken so far, per hook in the layout's order.
  const std::vector<HookRowCount>& rows_taken() const { return rows_taken_; }
  std::vector<RowGap> TakeGaps();

 private:
  // Rows that travel in one chunk.
  struct Key {
    RowKey rows;
    Phase phase = Phase::kPrompt;
    bool operator==(const Key&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& k) {
      return H::combine(std::move(h), k.rows, k.phase);
    }
  };

  bool WasReceived(const RowKey& rows);
  bool MayTake(const Key& key) const {
    return key.phase == Phase::kGenerated || prompt_done_;
  }
  ActivationChunk& UnfinishedChunk(const Key& key, const HookLayout& hook,
                                   int64_t width);
  void FinishChunk(const Key& key);
  ActivationChunk Release(ActivationChunk chunk);

  const CaptureLayout layout_;
  absl::flat_hash_map<Key, ActivationChunk> unfinished_;
  std::deque<Key> unfinished_order_;  // oldest first row first
  std::deque<ActivationChunk> finished_;
  int64_t used_bytes_ = 0;
  int64_t next_sequence_number_ = 0;
  bool prompt_done_ = false;
  std::vector<HookRowCount> rows_taken_;
  std::vector<RowGap> gaps_;
  // By choice: the gap that no row was delivered after.
  absl::flat_hash_map<int32_t, size_t> open_gap_;
  absl::flat_hash_map<RowKey, int64_t> received_;  // still to be left out
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_ACTIVATION_RING_H_
