#include "server/convert/capture_estimate.h"

#include <algorithm>
#include <vector>

namespace headrace {

namespace {

// Positions that the plan selects of the prompt.
int64_t PromptPositions(const SequenceOptions& sequence) {
  const std::vector<int32_t>& prompt = sequence.prompt;
  const auto length = static_cast<int64_t>(prompt.size());
  int64_t selected = 0;
  for (int64_t p = 0; p < length; ++p) {
    if (sequence.capture.rows.Selects(p, prompt[p], length)) ++selected;
  }
  return selected;
}

// At the most: which tokens will be generated is not known.
int64_t GeneratedPositions(const Request& request) {
  RowSelection rows = request.sequence.capture.rows;
  if (rows.generated.empty() || request.stop.max_tokens == 0) return 0;
  if (!rows.generated.token_ids.empty()) {
    rows.generated.all = true;
    rows.generated.stride = 1;
  }
  rows.exclude_token_ids.clear();
  const auto length = static_cast<int64_t>(request.sequence.prompt.size());
  const int64_t end = length + request.stop.max_tokens -
                      (request.delivery.feed_last_token ? 0 : 1);
  constexpr int32_t kAnyToken = -1;
  int64_t selected = 0;
  for (int64_t p = length; p < end; ++p) {
    if (rows.Selects(p, kAnyToken, length)) ++selected;
  }
  return selected;
}

}  // namespace

int64_t SelectedPositionsMax(const Request& request) {
  return PromptPositions(request.sequence) + GeneratedPositions(request);
}

CaptureEstimate EstimateCapture(const Request& request) {
  const CaptureLayout& layout = request.layout;
  if (layout.empty()) return {};
  const int64_t prompt = PromptPositions(request.sequence);
  const int64_t generated = GeneratedPositions(request) * request.num_choices;
  CaptureEstimate estimate{
      .prompt_rows = prompt * layout.rows_per_position,
      .generated_rows_max = generated * layout.rows_per_position,
      .bytes_max = (prompt + generated) * layout.bytes_per_position +
                   layout.end_bytes * request.num_choices};
  // Prompt rows fill their chunks; a generated row may travel alone.
  estimate.messages_max = estimate.generated_rows_max;
  for (const HookLayout& hook : layout.hooks) {
    const int64_t chunks =
        (prompt + hook.rows_per_chunk - 1) / hook.rows_per_chunk +
        std::min(prompt, hook.num_widths) - std::min<int64_t>(prompt, 1);
    estimate.messages_max += hook.rows_per_position * chunks;
  }
  return estimate;
}

}  // namespace headrace
