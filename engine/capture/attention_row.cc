#include "engine/capture/attention_row.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace headrace {
namespace {

void Softmax(std::vector<float>& scores) {
  const float max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (float& score : scores) {
    score = std::exp(score - max);
    sum += score;
  }
  for (float& score : scores) score = static_cast<float>(score / sum);
}

void KeepLargest(int32_t top_keys, AttentionRow& row) {
  std::vector<int32_t> order(row.values.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t kept = std::min(order.size(), static_cast<size_t>(top_keys));
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(kept),
                    order.end(), [&](int32_t a, int32_t b) {
                      const float x = row.values[static_cast<size_t>(a)];
                      const float y = row.values[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  order.resize(kept);
  std::vector<float> largest;
  for (const int32_t key : order) {
    largest.push_back(row.values[static_cast<size_t>(key)]);
    row.key_positions.push_back(static_cast<int32_t>(row.key_start) + key);
  }
  row.values = std::move(largest);
  row.key_count = static_cast<int64_t>(kept);
}

}  // namespace

AttentionRow MakeAttentionRow(HookPoint hook, const AttentionView& view,
                              int32_t step_row, int32_t head,
                              int32_t top_keys) {
  const AttentionView::Keys keys = view.KeysOf(step_row);
  AttentionRow row{
      .values = std::vector<float>(static_cast<size_t>(keys.count)),
      .key_positions = {},
      .key_start = keys.first,
      .key_count = keys.count};
  view.Scores(step_row, head, row.values);
  const bool probs = hook == HookPoint::kAttnProbs;
  if (probs) Softmax(row.values);
  if (top_keys > 0) KeepLargest(top_keys, row);
  const auto width = static_cast<size_t>(KeyRowWidth(keys.count, top_keys));
  row.values.resize(width, probs ? 0 : -std::numeric_limits<float>::infinity());
  if (top_keys > 0) row.key_positions.resize(width, 0);
  return row;
}

}  // namespace headrace
