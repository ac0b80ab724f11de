// Drives an Engine in tests: opens sequences, runs them to the end under a
// chosen schedule, keeps what came out.
#ifndef HEADRACE_TESTS_ENGINE_ENGINE_HARNESS_H_
#define HEADRACE_TESTS_ENGINE_ENGINE_HARNESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/engine.h"

namespace headrace {

// Keeps every row: (hook, layer, position) → values, and every derived row.
class RowKeeper final : public CaptureSink {
 public:
  using Key = std::tuple<HookPoint, int32_t, int64_t>;
  struct Derived {
    std::vector<float> values;
    std::vector<int32_t> ids;
    bool operator==(const Derived&) const = default;
  };
  // (spec, layer, position)
  using DerivedKey = std::tuple<int32_t, int32_t, int64_t>;
  void OnRow(const CapturedRow& row) override {
    if (row.rows_averaged > 0) {
      means[{row.derived, row.layer, row.phase}] = {
          .values = {row.values.begin(), row.values.end()},
          .rows = row.rows_averaged,
          .last_position = row.position};
      return;
    }
    if (row.head >= 0) {
      attention[{row.hook, row.layer, row.head, row.position}] = {
          .values = {row.values.begin(), row.values.end()},
          .key_positions = {row.ids.begin(), row.ids.end()},
          .key_start = row.key_start,
          .key_count = row.key_count};
      return;
    }
    if (row.derived >= 0) {
      derived[{row.derived, row.layer, row.position}] = {
          {row.values.begin(), row.values.end()},
          {row.ids.begin(), row.ids.end()}};
      return;
    }
    rows[{row.hook, row.layer, row.position}] = {row.values.begin(),
                                                 row.values.end()};
    ++calls;
  }
  struct Attention {
    std::vector<float> values;
    std::vector<int32_t> key_positions;
    int64_t key_start = 0;
    int64_t key_count = 0;
    bool operator==(const Attention&) const = default;
  };
  // (hook, layer, head, position)
  using AttentionKey = std::tuple<HookPoint, int32_t, int32_t, int64_t>;
  struct Mean {
    std::vector<float> values;
    int64_t rows = 0;
    int64_t last_position = 0;
    bool operator==(const Mean&) const = default;
  };
  const std::vector<float>& at(HookPoint hook, int32_t layer,
                               int64_t position) const {
    return rows.at({hook, layer, position});
  }
  std::map<Key, std::vector<float>> rows;
  std::map<DerivedKey, Derived> derived;
  std::map<AttentionKey, Attention> attention;
  std::map<std::tuple<int32_t, int32_t, Phase>, Mean> means;
  int64_t calls = 0;
};

// A sequence to run, and what it gave.
struct TestSequence {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;
  SamplingParams sampling{.temperature = 0};
  RopeRequest rope;
  CapturePlan capture;
  std::vector<Intervention> interventions;
  LogprobsOptions logprobs;
  std::optional<uint64_t> prefix_salt;
  // What it is guessed to generate, for Schedule::drafts.
  std::vector<int32_t> guesses;

  RowKeeper rows;
  std::vector<int32_t> generated;
  std::vector<PositionLogprobs> sampled;
  std::vector<PositionLogprobs> prompt_logprobs;
  CaptureChecks checks;
  std::vector<int64_t> applied;  // rows, by intervention
  int64_t cached_rows = 0;
  absl::Status status;
};

struct Schedule {
  int64_t chunk = 512;      // prompt rows per step and sequence at the most
  int64_t start_every = 0;  // steps between the starts of two sequences
  // After every so many steps all sequences are suspended, and resumed in the
  // opposite order, so that they find other blocks. 0: never.
  int64_t suspend_every = 0;
  int64_t drafts = 0;  // guesses per sampled token at the most
};

// Opens every sequence, steps them together until all are done, closes them.
void RunTogether(Engine& engine, const std::vector<TestSequence*>& sequences,
                 const Schedule& schedule = {});

// Every capturable hook, all layers, all rows, with checks.
CapturePlan CaptureEverything(const Engine& engine);

// The logits of every row of the prompt: to be captured, and, once that has
// run, one after the other.
CapturePlan CapturePromptLogits();
std::vector<float> PromptLogits(const TestSequence& test);

// |values - expected| / |expected|, Euclidean; both of one size.
double RelativeError(std::span<const float> values,
                     std::span<const float> expected);

// An engine, or a test failure.
std::unique_ptr<Engine> MakeEngine(EngineOptions options);

// The test data of stories260K (llama2.c), or "" where there is none.
std::string StoriesPath();
// SmolLM2-135M-Instruct Q4_1: $HEADRACE_MODEL, or the cache of
// deploy/fetch-model; "" where there is none.
std::string DefaultModelPath();

}  // namespace headrace

#endif  // HEADRACE_TESTS_ENGINE_ENGINE_HARNESS_H_
