// How captured rows are packed on their way to one reader: bytes per row, rows
// per chunk, and the size of the ring that holds them. One arithmetic for the
// ring itself, for the header's promises and for estimates.
#ifndef HEADRACE_SERVER_BATCHING_CAPTURE_LAYOUT_H_
#define HEADRACE_SERVER_BATCHING_CAPTURE_LAYOUT_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/capture/capture_plan.h"
#include "engine/engine.h"

namespace headrace {

// Element type of rows on the wire.
enum class WireDtype : uint8_t { kF32, kBF16, kF16, kInt8 };

// Values of an int8 row that may travel beside it, exactly.
inline constexpr int64_t kMaxRowOutliers = 8;

// Bytes of a row on the wire, at the most.
constexpr int64_t WireRowBytes(WireDtype dtype, int64_t width) {
  switch (dtype) {
    case WireDtype::kF32:
      return 4 * width;
    case WireDtype::kBF16:
    case WireDtype::kF16:
      return 2 * width;
    case WireDtype::kInt8:  // scale; outliers with their row and dimension
      return width + 4 + 12 * kMaxRowOutliers;
  }
  return 0;
}

// What happens when the reader is slower than the model.
enum class SlowReaderPolicy : uint8_t {
  kPauseSequence,  // the sequence waits; others go on
  kDropWithGaps,   // rows of whole steps are left out and listed
  kCancel,         // the request ends with RESOURCE_EXHAUSTED
};

// What is done to a chunk's data when it leaves the ring.
enum class Compression : uint8_t { kNone, kZstd };

// How a request wants its rows delivered.
struct CaptureDelivery {
  WireDtype dtype = WireDtype::kF32;
  SlowReaderPolicy policy = SlowReaderPolicy::kPauseSequence;
  int64_t chunk_bytes = 256 << 10;  // data of one chunk, at the most
  bool feed_last_token = false;     // the token sampled last has a row too
  Compression compression = Compression::kNone;
};

struct HookLayout {
  int32_t derived = -1;  // index into CapturePlan::derived; -1: the hook itself
  HookPoint hook;
  int64_t rows_per_position = 0;  // layers, or heads of layers
  WireDtype dtype = WireDtype::kF32;
  int64_t width = 0;      // values per row, at the most
  int64_t row_bytes = 0;  // on the wire, at the most
  int64_t rows_per_chunk = 0;
  int64_t num_widths = 1;  // of rows by key: they do not share chunks
};

struct CaptureLayout {
  // In the plan's order; then what is derived. That, and rows of heads, are
  // always float32.
  std::vector<HookLayout> hooks;
  // One position's rows: of every hook and layer. `ring_cost` counts what the
  // ring holds for them beside the data, too.
  int64_t rows_per_position = 0;
  int64_t bytes_per_position = 0;
  int64_t ring_cost_per_position = 0;
  int64_t ring_bytes = 0;  // capacity; at least two positions
  Compression compression = Compression::kNone;
  // Beside them, for each choice: what comes when it ends.
  int64_t end_bytes = 0;

  bool empty() const { return hooks.empty(); }
  const HookLayout& Get(int32_t derived, HookPoint hook) const;
};

// What the ring counts for a row beside its data: position, token and share of
// the chunk's own fields.
inline constexpr int64_t kRowOverheadBytes = 16;

// `hooks` and `dimensions` give the widths; `max_ring_bytes` bounds the ring
// unless two positions need more. Chunks are kept so small that all unfinished
// ones together fill at most half of the ring: a reader that took every
// finished chunk always leaves room for a step.
CaptureLayout MakeCaptureLayout(const CapturePlan& plan,
                                std::span<const HookPointState> hooks,
                                const DerivedDimensions& dimensions,
                                const CaptureDelivery& delivery,
                                int64_t max_ring_bytes);

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_CAPTURE_LAYOUT_H_
