// What a request sends to its reader: plain structs, in the order in which an
// EventStream gives them out.
#ifndef HEADRACE_SERVER_BATCHING_EVENTS_H_
#define HEADRACE_SERVER_BATCHING_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/batch.h"
#include "server/batching/capture_layout.h"
#include "server/vectors/row_keeper.h"

namespace headrace {

enum class FinishReason : uint8_t {
  kStopToken,
  kStopString,
  kMaxTokens,
  kContextFull,
  kTimeLimit,
};

// The request was admitted: always the first event.
struct StartedEvent {};

struct PromptLogprobsEvent {
  PositionLogprobs logprobs;
};

struct TokenEvent {
  int32_t choice = 0;
  int64_t index = 0;  // within the choice
  int32_t token = 0;
  std::string text;  // complete characters that no stop string can take back
  bool special = false;                      // a control token
  std::optional<PositionLogprobs> logprobs;  // when asked for
};

// A value that an int8 row does not hold.
struct RowOutlier {
  int32_t row = 0;  // of the chunk
  int32_t dimension = 0;
  float value = 0;
};

// Rows of one hook and layer, or of a quantity derived from them.
struct ActivationChunk {
  int32_t choice = 0;
  int32_t derived = -1;  // index into CapturePlan::derived; -1: the hook itself
  HookPoint hook = HookPoint::kEmbed;
  int32_t layer = -1;  // -1 where the hook has none
  int32_t head = -1;   // of rows by key
  Phase phase = Phase::kPrompt;
  WireDtype dtype = WireDtype::kF32;
  int64_t width = 0;
  std::vector<int64_t> positions;  // one per row
  std::vector<int32_t> tokens;
  std::string data;                 // rows x width values, little-endian
  std::vector<int32_t> ids;         // CapturedRow::ids, row after row
  std::vector<int64_t> key_starts;  // with a head: one per row
  std::vector<int64_t> key_counts;
  std::vector<int64_t> rows_averaged;  // of means: one per row
  std::vector<float> scales;           // kInt8: one per row
  std::vector<RowOutlier> outliers;    // kInt8
  uint32_t crc32c = 0;
  Compression compression = Compression::kNone;  // wanted on the wire
  int64_t sequence_number = 0;  // of the stream's chunks, without a gap
  float max_abs_error = 0;      // of narrowing
  int64_t overflow_count = 0;   // finite values that became infinite
};

struct ChoiceEndEvent {
  int32_t choice = 0;
  std::string text;  // that was still held back
  FinishReason reason = FinishReason::kMaxTokens;
  std::string stop_string;               // with kStopString
  std::optional<int32_t> stop_token_id;  // with kStopToken
  int64_t generated = 0;
};

// Rows that were left out, of every hook and layer: the selected positions from
// the first to the last.
struct RowGap {
  int32_t choice = 0;
  int64_t first_position = 0;
  int64_t last_position = 0;
  bool cached = false;  // the prefix cache had them; else the reader was slow
};

struct HookRowCount {
  int32_t derived = -1;
  HookPoint hook = HookPoint::kEmbed;
  int64_t rows = 0;  // over its layers
};

struct RequestTimings {
  absl::Duration queue;
  absl::Duration prefill;
  absl::Duration decode;
  absl::Duration stalled;  // waiting for the reader
};

// The last event of a request that went well.
struct EndEvent {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t generated_tokens = 0;  // over all choices
  RequestTimings timings;
  std::vector<HookRowCount> rows;  // delivered
  std::vector<RowGap> gaps;
  std::optional<CaptureChecks> checks;
  // Rows, by intervention, over all choices.
  std::vector<int64_t> interventions_applied;
  std::optional<KeptReceipt> kept;  // rows that stay on the server
};

// The last event of one that did not.
struct FailedEvent {
  absl::Status status;
};

using StreamEvent =
    std::variant<StartedEvent, PromptLogprobsEvent, TokenEvent, ActivationChunk,
                 ChoiceEndEvent, EndEvent, FailedEvent>;

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_EVENTS_H_
