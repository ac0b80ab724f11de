// What goes into one engine step and what comes out of it: plain structs.
//
// A step is a ragged batch of rows; a row is (sequence, position, token).
// Prefill chunks and decode rows of many sequences travel together and nothing
// is padded. A row's result does not depend, bit for bit, on the other rows of
// its step, on how its prompt was chunked, on the prefix cache or on threads.
#ifndef HEADRACE_ENGINE_BATCH_H_
#define HEADRACE_ENGINE_BATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "engine/capture/capture_plan.h"
#include "engine/capture/intervention.h"
#include "engine/rope/rope_params.h"
#include "engine/sampling/logprobs.h"
#include "engine/sampling/sampling_params.h"

namespace headrace {

enum class SequenceId : uint64_t {};

// All that is frozen when a sequence opens.
struct SequenceOptions {
  std::vector<int32_t> prompt;  // not empty; ids < vocab_size
  // Rows that the sequence may ever have: KV blocks for all of them are
  // reserved at once. >= prompt.size().
  int64_t max_rows = 0;
  std::optional<EffectiveRope> rope;  // nullopt: the model has no RoPE
  SamplingParams sampling;
  int32_t choice = 0;  // each choice of one seed has its own random stream
  // Tokens that must not be sampled before `min_tokens` were generated.
  std::vector<int32_t> end_token_ids;
  int64_t min_tokens = 0;
  LogprobsOptions logprobs;
  CapturePlan capture;
  CaptureSink* capture_sink = nullptr;  // outlives the sequence
  // In order. What they made is never shared: such a sequence neither reads
  // nor feeds the prefix cache.
  std::vector<Intervention> interventions;
  // Sequences share prompt blocks when this and the RoPE hash are equal;
  // nullopt: never share.
  std::optional<uint64_t> prefix_salt;
};

struct OpenedSequence {
  // Leading rows whose keys and values came from the prefix cache; at least one
  // row of the tokens so far is left. The first row to step is this one.
  int64_t cached_rows = 0;
};

// `num_rows` rows of one sequence, from its next position on: rows of the
// prompt, the one token sampled last, or, after ResumeSequence(), rows of both.
// A slice that reaches the last token so far yields a sampled one when
// `sample`.
struct SequenceSlice {
  SequenceId sequence;
  int64_t num_rows = 0;
  bool sample = true;
  // Tokens that may come next, only with `sample` and after the last token so
  // far: each adds a row to the step, and where the sequence's own sampler
  // draws the same token, that row counts as if it had been stepped later. The
  // result is the same in every bit with any drafts or none; rows of drafts
  // that were not drawn are as if they had never been. Not in sequences whose
  // CapturePlan::Averages().
  std::vector<int32_t> drafts;
};

struct Batch {
  std::vector<SequenceSlice> slices;  // each sequence at most once
};

// What capture and interventions of a sequence came to.
struct SequenceReport {
  CaptureChecks checks;
  std::vector<int64_t> interventions_applied;  // rows, by intervention
};

struct SequenceResult {
  SequenceId sequence;
  // Not OK: this sequence alone is broken (non-finite logits at a position).
  absl::Status status;
  // The new token, and one more for each draft that was drawn, in order; a
  // token's `position` is where it is fed. None after an end token.
  std::vector<PositionLogprobs> sampled;
  std::vector<PositionLogprobs> prompt_logprobs;  // of this step's rows
};

struct StepResult {
  std::vector<SequenceResult> sequences;  // in the order of the slices
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BATCH_H_
