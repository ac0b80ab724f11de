#include "tests/engine/ops/attention/attention_reference.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <random>
#include <span>

#include "engine/ops/kernels/activation_constants.h"

namespace headrace::testing {
namespace {

constexpr int64_t kTile = 64;
constexpr int64_t kPart = 512;
constexpr int64_t kLanes = 16;

std::vector<float> Normal(int64_t n, float deviation, std::mt19937& random) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

// First visible position of a row.
int64_t FirstVisible(const AttentionCase& c, int64_t row) {
  if (!c.sliding_window) return 0;
  return std::max<int64_t>(0, row - *c.sliding_window + 1);
}

struct Head {
  const AttentionCase& c;
  int64_t row;
  int64_t head;

  int64_t kv_head() const {
    return head / (c.num_attention_heads / c.num_key_value_heads);
  }
  std::span<const float> At(const std::vector<float>& values, int64_t at_row,
                            int64_t at_head, int64_t num_heads) const {
    return std::span(values).subspan(
        static_cast<size_t>((at_row * num_heads + at_head) * c.head_dim),
        static_cast<size_t>(c.head_dim));
  }
  std::span<const float> q() const {
    return At(c.q, row, head, c.num_attention_heads);
  }
  std::span<const float> k(int64_t key) const {
    return At(c.k, key, kv_head(), c.num_key_value_heads);
  }
  std::span<const float> v(int64_t key) const {
    return At(c.v, key, kv_head(), c.num_key_value_heads);
  }
};

struct State {
  float max = -FLT_MAX;
  float sum = 0;
  std::vector<float> out;
};

// Numbers as integers with a common scale.
struct Integers {
  Integers(std::span<const float> src, float limit) {
    float absmax = 0;
    for (const float x : src) absmax = std::max(absmax, std::abs(x));
    if (absmax < 0x1p-100f) {
      values.resize(src.size());
      return;
    }
    scale = absmax * (1 / limit);
    for (const float x : src) {
      const float scaled = x * (limit / absmax);
      values.push_back(static_cast<int64_t>(std::nearbyint(scaled)));
    }
  }
  std::vector<int64_t> values;
  float scale = 0;
};

constexpr float kQueryLimit = 2896;
constexpr float kWeightLimit = 11585;

Integers KvIntegers(const Head& h, std::span<const float> src) {
  return {src, h.c.dtype == KvCacheDtype::kInt16 ? kQueryLimit : 127.0f};
}

float IntegerScoreInOrder(const Head& h, int64_t key) {
  std::vector<float> scaled;
  for (const float q : h.q()) scaled.push_back(q * h.c.scale);
  const Integers q(scaled, kQueryLimit);
  const Integers k = KvIntegers(h, h.k(key));
  int64_t dot = 0;
  for (size_t d = 0; d < q.values.size(); ++d) {
    dot += q.values[d] * k.values[d];
  }
  return static_cast<float>(dot) * (q.scale * k.scale);
}

float ScoreInOrder(const Head& h, int64_t key) {
  if (IsInteger(h.c.dtype)) return IntegerScoreInOrder(h, key);
  float score = 0;
  for (size_t d = 0; d < h.q().size(); ++d) {
    score = std::fma(h.q()[d] * h.c.scale, h.k(key)[d], score);
  }
  return score;
}

struct Keys {
  int64_t begin;
  int64_t end;
};

// `p` are the weights of the keys of a tile.
void AddValues(const Head& h, Keys keys, const float* p, float alpha,
               std::vector<float>& out) {
  const int64_t first_key = keys.begin / kTile * kTile;
  if (!IsInteger(h.c.dtype)) {
    for (size_t d = 0; d < out.size(); ++d) {
      out[d] *= alpha;
      for (int64_t key = keys.begin; key < keys.end; ++key) {
        out[d] = std::fma(p[key - first_key], h.v(key)[d], out[d]);
      }
    }
    return;
  }
  std::vector<Integers> values;
  std::vector<float> weighed;
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    values.push_back(KvIntegers(h, h.v(key)));
    weighed.push_back(p[key - first_key] * values.back().scale);
  }
  const Integers weights(weighed, kWeightLimit);
  for (size_t d = 0; d < out.size(); ++d) {
    int64_t dot = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      dot += weights.values[i] * values[i].values[d];
    }
    out[d] = std::fma(static_cast<float>(dot), weights.scale, out[d] * alpha);
  }
}

// Keys [begin, end) of one tile; `lanes` are the 16 partial sums.
void AddTile(const Head& h, int64_t begin, int64_t end, State& state,
             float* lanes) {
  const int64_t first_key = begin / kTile * kTile;
  float p[kTile] = {};
  float max = state.max;
  for (int64_t key = begin; key < end; ++key) {
    p[key - first_key] = ScoreInOrder(h, key);
    max = std::max(max, p[key - first_key]);
  }
  for (int64_t key = begin; key < end; ++key) {
    p[key - first_key] = ExpNonPositiveInOrder(p[key - first_key] - max);
  }
  const float alpha = ExpNonPositiveInOrder(state.max - max);
  for (int64_t i = 0; i < kLanes; ++i) {
    const float tile_sum =
        (p[i] + p[i + kLanes]) + (p[i + 2 * kLanes] + p[i + 3 * kLanes]);
    lanes[i] = std::fma(lanes[i], alpha, tile_sum);
  }
  AddValues(h, {begin, end}, p, alpha, state.out);
  state.max = max;
}

State PartInOrder(const Head& h, int64_t begin, int64_t end) {
  State state;
  state.out.resize(static_cast<size_t>(h.c.head_dim));
  float lanes[kLanes] = {};
  while (begin < end) {
    const int64_t tile_end = std::min(end, (begin / kTile + 1) * kTile);
    AddTile(h, begin, tile_end, state, lanes);
    begin = tile_end;
  }
  state.sum = SumOfLanesInOrder(lanes);
  return state;
}

void Merge(const State& part, State& total) {
  const float max = std::max(total.max, part.max);
  const float a = ExpNonPositiveInOrder(total.max - max);
  const float b = ExpNonPositiveInOrder(part.max - max);
  total.max = max;
  total.sum = std::fma(part.sum, b, total.sum * a);
  for (size_t d = 0; d < total.out.size(); ++d) {
    total.out[d] = std::fma(part.out[d], b, total.out[d] * a);
  }
}

}  // namespace

AttentionCase MakeAttentionCase(const CaseShape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  const int64_t q_size =
      shape.num_rows * shape.num_attention_heads * shape.head_dim;
  const int64_t kv_size =
      shape.num_rows * shape.num_key_value_heads * shape.head_dim;
  return {.num_rows = shape.num_rows,
          .num_attention_heads = shape.num_attention_heads,
          .num_key_value_heads = shape.num_key_value_heads,
          .head_dim = shape.head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
          .sliding_window = shape.sliding_window,
          .q = Normal(q_size, 1.0f, random),
          .k = Normal(kv_size, 1.5f, random),
          .v = Normal(kv_size, 1.0f, random)};
}

std::vector<double> AttentionInFloat64(const AttentionCase& c, int64_t row,
                                       int64_t head) {
  const Head h = {c, row, head};
  std::vector<double> scores;
  for (int64_t key = FirstVisible(c, row); key <= row; ++key) {
    double score = 0;
    for (size_t d = 0; d < h.q().size(); ++d) {
      score += static_cast<double>(h.q()[d]) * h.k(key)[d];
    }
    scores.push_back(score * c.scale);
  }
  const double max = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  std::vector<double> out(static_cast<size_t>(c.head_dim));
  for (size_t i = 0; i < scores.size(); ++i) {
    const double p = std::exp(scores[i] - max);
    sum += p;
    const auto v = h.v(FirstVisible(c, row) + static_cast<int64_t>(i));
    for (size_t d = 0; d < out.size(); ++d) out[d] += p * v[d];
  }
  for (double& value : out) value /= sum;
  return out;
}

std::vector<float> AttentionInOrder(const AttentionCase& c, int64_t row,
                                    int64_t head) {
  const Head h = {c, row, head};
  State total;
  for (int64_t begin = FirstVisible(c, row); begin <= row;) {
    const int64_t end = std::min(row + 1, (begin / kPart + 1) * kPart);
    State part = PartInOrder(h, begin, end);
    if (total.out.empty()) {
      total = std::move(part);
    } else {
      Merge(part, total);
    }
    begin = end;
  }
  const float factor = 1.0f / total.sum;
  for (float& value : total.out) value *= factor;
  return total.out;
}

std::vector<float> ScoresInOrder(const AttentionCase& c, int64_t row,
                                 int64_t head) {
  std::vector<float> scores;
  for (int64_t key = FirstVisible(c, row); key <= row; ++key) {
    scores.push_back(ScoreInOrder({c, row, head}, key));
  }
  return scores;
}

float ExpNonPositiveInOrder(float x) {
  if (x < kernels::kExpFlush) return 0;
  const float shifted = std::fma(x, kernels::kLog2E, kernels::kExpShifter);
  const float n = shifted - kernels::kExpShifter;
  const float r = std::fma(x, kernels::kLog2E, -n);
  float p = 0;
  for (const float coefficient : kernels::kExp2Coefficients) {
    p = std::fma(p, r, coefficient);
  }
  return p * std::ldexp(1.0f, static_cast<int>(n));
}

float SumOfLanesInOrder(const float* lanes) {
  std::vector<float> sums(lanes, lanes + kLanes);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

}  // namespace headrace::testing
