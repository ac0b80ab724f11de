#include "tests/engine/engine_harness.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>

#include "absl/log/check.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

struct Running {
  TestSequence* test;
  SequenceId id;
  int64_t next_row = 0;
  bool done = false;

  int64_t rows_left() const {
    return static_cast<int64_t>(test->prompt.size() + test->generated.size()) -
           next_row;
  }
};

void Open(Engine& engine, Running& running) {
  TestSequence& test = *running.test;
  SequenceOptions options;
  options.prompt = test.prompt;
  options.max_rows = static_cast<int64_t>(test.prompt.size()) + test.max_tokens;
  const RopeResolution rope =
      ResolveRequestRope(engine.model(), test.rope, options.max_rows);
  CHECK(rope.violations.empty()) << rope.violations.front().description;
  options.rope = rope.rope;
  options.sampling = test.sampling;
  options.logprobs = test.logprobs;
  options.capture = test.capture;
  options.capture_sink = &test.rows;
  options.interventions = test.interventions;
  options.prefix_salt = test.prefix_salt;
  const auto opened = engine.OpenSequence(running.id, std::move(options));
  CHECK(opened.ok()) << opened.status();
  test.cached_rows = opened->cached_rows;
  running.next_row = opened->cached_rows;
}

void Take(Running& running, const SequenceResult& result) {
  TestSequence& test = *running.test;
  if (!result.status.ok()) {
    test.status = result.status;
    running.done = true;
    return;
  }
  test.prompt_logprobs.insert(test.prompt_logprobs.end(),
                              result.prompt_logprobs.begin(),
                              result.prompt_logprobs.end());
  for (const PositionLogprobs& sampled : result.sampled) {
    test.generated.push_back(sampled.token.token);
    test.sampled.push_back(sampled);
  }
  // Rows of drafts that were drawn.
  running.next_row += std::max<int64_t>(0, std::ssize(result.sampled) - 1);
  const auto generated = static_cast<int64_t>(test.generated.size());
  running.done = generated >= test.max_tokens &&
                 running.next_row >= static_cast<int64_t>(test.prompt.size());
}

std::vector<int32_t> Drafts(const Running& r, int64_t rows, int64_t drafts) {
  const TestSequence& test = *r.test;
  const int64_t next = std::ssize(test.generated);
  const int64_t count = std::min(
      {drafts, test.max_tokens - next - 1, std::ssize(test.guesses) - next});
  if (rows != r.rows_left() || count <= 0) return {};
  return {test.guesses.begin() + next, test.guesses.begin() + next + count};
}

void SuspendAndResume(Engine& engine, std::span<Running> running) {
  for (const Running& r : running) engine.SuspendSequence(r.id);
  for (auto r = running.rbegin(); r != running.rend(); ++r) {
    const auto resumed = engine.ResumeSequence(r->id);
    CHECK(resumed.ok()) << resumed.status();
    r->next_row = resumed->cached_rows;
  }
}

}  // namespace

void RunTogether(Engine& engine, const std::vector<TestSequence*>& sequences,
                 const Schedule& schedule) {
  static uint64_t next_id = 1;
  std::vector<Running> running;
  running.reserve(sequences.size());
  for (TestSequence* test : sequences) {
    running.push_back({.test = test, .id = SequenceId{next_id++}});
  }
  size_t opened = 0;
  for (int64_t step = 0;; ++step) {
    while (opened < running.size() &&
           step >= static_cast<int64_t>(opened) * schedule.start_every) {
      Open(engine, running[opened++]);
    }
    Batch batch;
    std::vector<Running*> in_step;
    int64_t room = 512;
    for (size_t i = 0; i < opened; ++i) {
      Running& r = running[i];
      if (r.done || room == 0) continue;
      const int64_t rows = std::min({r.rows_left(), schedule.chunk, room});
      std::vector<int32_t> drafts =
          Drafts(r, rows, std::min(schedule.drafts, room - rows));
      room -= rows + std::ssize(drafts);
      batch.slices.push_back({.sequence = r.id,
                              .num_rows = rows,
                              .sample = r.test->max_tokens > 0,
                              .drafts = std::move(drafts)});
      r.next_row += rows;
      in_step.push_back(&r);
    }
    if (in_step.empty() && opened == running.size()) break;
    if (in_step.empty()) continue;
    const auto result = engine.Step(batch);
    CHECK(result.ok()) << result.status();
    for (size_t i = 0; i < in_step.size(); ++i) {
      Take(*in_step[i], result->sequences[i]);
    }
    if (schedule.suspend_every > 0 &&
        (step + 1) % schedule.suspend_every == 0) {
      SuspendAndResume(engine, std::span(running).first(opened));
    }
  }
  for (const Running& r : running) {
    engine.FinishSequence(r.id);
    SequenceReport report = engine.report(r.id);
    r.test->checks = report.checks;
    r.test->applied = std::move(report.interventions_applied);
    engine.CloseSequence(r.id);
  }
}

CapturePlan CapturePromptLogits() {
  CapturePlan plan;
  plan.hooks = {{.hook = HookPoint::kLogits, .layers = {-1}}};
  plan.rows.prompt.all = true;
  return plan;
}

std::vector<float> PromptLogits(const TestSequence& test) {
  EXPECT_TRUE(test.status.ok()) << test.status;
  std::vector<float> logits;
  for (size_t row = 0; row < test.prompt.size(); ++row) {
    const auto& values =
        test.rows.at(HookPoint::kLogits, -1, static_cast<int64_t>(row));
    logits.insert(logits.end(), values.begin(), values.end());
  }
  return logits;
}

double RelativeError(std::span<const float> values,
                     std::span<const float> expected) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(values[i] - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(error / size);
}

CapturePlan CaptureEverything(const Engine& engine) {
  CapturePlan plan;
  plan.checks = true;
  plan.rows.prompt.all = true;
  plan.rows.generated.all = true;
  for (const HookPointState& state : engine.hooks()) {
    if (!state.capturable) continue;
    HookSelection selection{.hook = state.hook, .layers = {-1}};
    if (GetHookPointInfo(state.hook).per_layer) {
      selection.layers.clear();
      for (int32_t l = 0; l < engine.model().config.num_hidden_layers; ++l) {
        selection.layers.push_back(l);
      }
    }
    for (const int32_t layer : selection.layers) {
      for (int32_t head = 0; head < state.num_heads; ++head) {
        selection.heads.push_back({layer, head});
      }
    }
    plan.hooks.push_back(std::move(selection));
  }
  return plan;
}

std::unique_ptr<Engine> MakeEngine(EngineOptions options) {
  auto engine = Engine::Create(std::move(options));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

std::string StoriesPath() {
  const std::string path =
      HEADRACE_SOURCE_DIR "/../shared/data/stories260k/stories260K.bin";
  return std::filesystem::exists(path) ? path : "";
}

std::string DefaultModelPath() {
  const char* named = std::getenv("HEADRACE_MODEL");
  if (named != nullptr) return named;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string base;
  if (cache != nullptr) {
    base = cache;
  } else if (home != nullptr) {
    base = std::string(home) + "/.cache";
  }
  const std::string path =
      base + "/headrace/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace headrace
