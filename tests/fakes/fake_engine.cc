#include "tests/fakes/fake_engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/log/check.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/capture/hook_selection.h"

namespace headrace {

namespace {

bool IsCapturable(HookPoint hook) {
  switch (hook) {
    case HookPoint::kEmbed:
    case HookPoint::kResidPre:
    case HookPoint::kAttnNormScale:
    case HookPoint::kAttnOut:
    case HookPoint::kResidMid:
    case HookPoint::kMlpOut:
    case HookPoint::kResidPost:
    case HookPoint::kFinalNormOut:
    case HookPoint::kAttnProbs:
    case HookPoint::kLogits:
      return true;
    case HookPoint::kPositionWrite:
    case HookPoint::kAttnNormOut:
    case HookPoint::kQ:
    case HookPoint::kK:
    case HookPoint::kV:
    case HookPoint::kQRotated:
    case HookPoint::kKRotated:
    case HookPoint::kAttnScores:
    case HookPoint::kZ:
    case HookPoint::kMlpNormScale:
    case HookPoint::kMlpNormOut:
    case HookPoint::kMlpGate:
    case HookPoint::kMlpUp:
    case HookPoint::kMlpAct:
    case HookPoint::kFinalNormScale:
      return false;
  }
  return false;
}

int64_t WidthOf(HookPoint hook, int64_t hidden_size) {
  if (hook == HookPoint::kLogits) return kFakeVocabSize;
  if (hook == HookPoint::kAttnProbs) return 0;
  return hook == HookPoint::kAttnNormScale ? 1 : hidden_size;
}

// FNV-1a, 64 bits.
uint64_t Mix(uint64_t hash, uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) {
    hash = (hash ^ ((value >> shift) & 0xFF)) * 0x100000001B3u;
  }
  return hash;
}

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

int32_t FakeNextToken(std::span<const int32_t> tokens,
                      const SequenceOptions& options) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const int32_t token : tokens) hash = Mix(hash, token);
  if (options.sampling.temperature > 0) {
    hash = Mix(Mix(hash, options.sampling.seed), options.choice);
  }
  return static_cast<int32_t>('a' + (hash >> 32) % 26);
}

float FakeRowValue(HookPoint hook, int32_t layer, int64_t position, int64_t i) {
  return static_cast<float>(position) + 0.5f * static_cast<float>(layer) +
         100.0f * static_cast<float>(hook) + 0.0078125f * static_cast<float>(i);
}

FakeEngine::FakeEngine(FakeEngineOptions options) : options_(options) {
  ModelConfig& config = model_.config;
  config.architecture = "llama";
  config.name = "fake";
  config.hidden_size = options.hidden_size;
  config.intermediate_size = 2 * options.hidden_size;
  config.num_hidden_layers = options.num_layers;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = options.hidden_size / 2;
  config.vocab_size = kFakeVocabSize;
  config.max_position_embeddings = options.context_length;
  config.rope = RopeParams{.head_dim = config.head_dim,
                           .rotary_dim = config.head_dim,
                           .max_position_embeddings = options.context_length};
  absl::StatusOr<EffectiveRope> rope =
      ResolveRope(*config.rope, config.rope_pairing, /*context_length=*/0);
  CHECK_OK(rope.status());
  model_.rope = *std::move(rope);
  model_.numerics = Numerics::kExact;
  model_.weight_format = "fake";
  model_.weight_dtype = "F32";
  model_.weights_sha256 = std::string(64, 'f');
  model_.context_length = options.context_length;
  model_.num_threads = 1;
  model_.isa = "fake";
  for (const HookPointInfo& info : AllHookPoints()) {
    const bool capturable = IsCapturable(info.hook);
    hooks_.push_back(
        {.hook = info.hook,
         .width = capturable ? WidthOf(info.hook, options.hidden_size) : 0,
         .capturable = capturable,
         .writable =
             capturable && info.per_layer && info.hook != HookPoint::kAttnProbs,
         .refusal = !capturable      ? "the fake model does not compute it"
                    : info.per_layer ? ""
                                     : "the fake model only shows it",
         .num_heads = info.hook == HookPoint::kAttnProbs ? 2 : 0});
  }
  if (options.has_tokenizer) {
    tokenizer_ = std::make_unique<FakeTokenizer>(options.adds_bos);
    model_.end_token_ids = tokenizer_->end_token_ids();
  }
  if (!options.chat_template.empty()) {
    absl::StatusOr<std::unique_ptr<ChatTemplate>> parsed =
        ChatTemplate::Parse(options.chat_template, "<s>", "</s>");
    CHECK_OK(parsed.status());
    chat_template_ = *std::move(parsed);
  }
}

int64_t FakeEngine::CachedRows(const SequenceOptions& options) const {
  if (!options_.prefix_cache || !options.prefix_salt.has_value()) return 0;
  const uint64_t rope_hash = options.rope.has_value() ? options.rope->hash : 0;
  int64_t longest = 0;
  for (const CachedPrefix& prefix : prefixes_) {
    if (prefix.salt != *options.prefix_salt || prefix.rope_hash != rope_hash) {
      continue;
    }
    const auto [mine, theirs] =
        std::mismatch(options.prompt.begin(), options.prompt.end(),
                      prefix.tokens.begin(), prefix.tokens.end());
    longest = std::max<int64_t>(longest, mine - options.prompt.begin());
  }
  longest = std::min(longest, static_cast<int64_t>(options.prompt.size()) - 1);
  if (!options.capture.empty() && !options.capture.leaves_out_cached) {
    longest = std::min(
        longest,
        options.capture.rows.FirstPromptRow(options.prompt).value_or(longest));
  }
  if (options.logprobs.prompt) longest = 0;
  return longest / options_.block_size * options_.block_size;
}

absl::Status FakeEngine::TakeBlocks(int64_t max_rows) {
  const int64_t blocks = BlocksFor(max_rows);
  if (used_blocks_ + blocks > options_.total_blocks) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the KV cache has no ", blocks, " free blocks"));
  }
  used_blocks_ += blocks;
  return absl::OkStatus();
}

absl::StatusOr<OpenedSequence> FakeEngine::OpenSequence(
    SequenceId id, SequenceOptions options) {
  CHECK(!sequences_.contains(id));
  CHECK(!options.prompt.empty());
  CHECK_GE(options.max_rows, static_cast<int64_t>(options.prompt.size()));
  RETURN_IF_ERROR(TakeBlocks(options.max_rows));
  ++opened_;
  const int64_t cached_rows = CachedRows(options);
  Sequence& sequence = sequences_[id];
  sequence.tokens = options.prompt;
  sequence.next_row = sequence.reported_rows = cached_rows;
  sequence.options = std::move(options);
  return OpenedSequence{.cached_rows = cached_rows};
}

void FakeEngine::FinishSequence(SequenceId id) {
  const Sequence& sequence = sequences_.at(id);
  const CapturePlan& plan = sequence.options.capture;
  for (size_t k = 0; k < plan.derived.size(); ++k) {
    const DerivedSpec& spec = plan.derived[k];
    if (spec.kind != DerivedKind::kMean) continue;
    const std::vector<float> values(static_cast<size_t>(spec.width), 0.5f);
    for (const int32_t layer : spec.where.layers) {
      sequence.options.capture_sink->OnRow(
          {.derived = static_cast<int32_t>(k),
           .hook = spec.where.hook,
           .layer = layer,
           .phase = Phase::kGenerated,
           .position = sequence.next_row - 1,
           .token = sequence.tokens[sequence.next_row - 1],
           .values = values,
           .rows_averaged = sequence.next_row});
    }
  }
}

void FakeEngine::CloseSequence(SequenceId id) {
  const auto found = sequences_.find(id);
  CHECK(found != sequences_.end());
  if (!found->second.suspended) {
    used_blocks_ -= BlocksFor(found->second.options.max_rows);
  }
  sequences_.erase(found);
}

void FakeEngine::SuspendSequence(SequenceId id) {
  Sequence& sequence = sequences_.at(id);
  CHECK(!sequence.suspended);
  sequence.suspended = true;
  used_blocks_ -= BlocksFor(sequence.options.max_rows);
  ++suspensions_;
}

absl::StatusOr<OpenedSequence> FakeEngine::ResumeSequence(SequenceId id) {
  Sequence& sequence = sequences_.at(id);
  CHECK(sequence.suspended);
  RETURN_IF_ERROR(TakeBlocks(sequence.options.max_rows));
  sequence.suspended = false;
  sequence.next_row =
      std::min(CachedRows(sequence.options), sequence.reported_rows);
  return OpenedSequence{.cached_rows = sequence.next_row};
}

absl::StatusOr<StepResult> FakeEngine::Step(const Batch& batch) {
  if (on_step) on_step(batch);
  if (!refuse_step.ok()) return std::exchange(refuse_step, absl::OkStatus());
  steps_.push_back(batch);
  StepResult result;
  for (const SequenceSlice& slice : batch.slices) {
    RETURN_IF_ERROR(CheckSlice(slice));
    result.sequences.push_back(RunSlice(slice));
  }
  return result;
}

absl::Status FakeEngine::CheckSlice(const SequenceSlice& slice) const {
  const auto found = sequences_.find(slice.sequence);
  if (found == sequences_.end()) {
    return absl::InvalidArgumentError("a slice of a closed sequence");
  }
  const Sequence& sequence = found->second;
  if (sequence.suspended) {
    return absl::InvalidArgumentError("a slice of a suspended sequence");
  }
  const int64_t end = sequence.next_row + slice.num_rows;
  if (!slice.drafts.empty() &&
      (!slice.sample || end != std::ssize(sequence.tokens) ||
       end + std::ssize(slice.drafts) > sequence.options.max_rows)) {
    return absl::InvalidArgumentError(
        absl::StrCat(slice.drafts.size(), " drafts at row ", end));
  }
  if (slice.num_rows < 1 || end > sequence.options.max_rows ||
      end > static_cast<int64_t>(sequence.tokens.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a slice of ", slice.num_rows, " rows at row ", sequence.next_row));
  }
  return absl::OkStatus();
}

SequenceResult FakeEngine::RunSlice(const SequenceSlice& slice) {
  Sequence& sequence = sequences_.at(slice.sequence);
  const int64_t end = sequence.next_row + slice.num_rows;
  // What is computed again is not reported again.
  const int64_t begin =
      std::clamp(sequence.reported_rows, sequence.next_row, end);
  const auto prompt_length =
      static_cast<int64_t>(sequence.options.prompt.size());
  EmitRows(sequence, begin, end);
  CountEdits(sequence, begin, end);
  sequence.next_row = end;
  sequence.reported_rows = std::max(sequence.reported_rows, end);
  rows_computed_ += slice.num_rows;

  SequenceResult result{.sequence = slice.sequence};
  if (trouble) {
    result.status = trouble(std::span(sequence.tokens).first(end));
    if (!result.status.ok()) return result;
  }
  if (sequence.options.logprobs.prompt) {
    for (int64_t p = begin + 1; p <= std::min(end, prompt_length - 1); ++p) {
      result.prompt_logprobs.push_back(
          LogprobsAt(sequence, p, sequence.tokens[p]));
    }
  }
  if (end >= prompt_length && sequence.options.prefix_salt.has_value()) {
    prefixes_.push_back({.salt = *sequence.options.prefix_salt,
                         .rope_hash = sequence.options.rope.has_value()
                                          ? sequence.options.rope->hash
                                          : 0,
                         .tokens = sequence.options.prompt});
  }
  if (end < std::ssize(sequence.tokens) || !slice.sample) return result;
  result.sampled.push_back(Sample(sequence));
  for (const int32_t draft : slice.drafts) {
    const int32_t token = sequence.tokens.back();
    if (token != draft || Contains(sequence.options.end_token_ids, token)) {
      break;
    }
    // The row of the draft counts.
    const int64_t row = sequence.next_row++;
    sequence.reported_rows = sequence.next_row;
    EmitRows(sequence, row, row + 1);
    CountEdits(sequence, row, row + 1);
    result.sampled.push_back(Sample(sequence));
  }
  rows_computed_ += std::ssize(slice.drafts);
  return result;
}

PositionLogprobs FakeEngine::Sample(Sequence& sequence) {
  int32_t token = next_token(sequence.tokens, sequence.options);
  const auto generated =
      std::ssize(sequence.tokens) - std::ssize(sequence.options.prompt);
  if (generated < sequence.options.min_tokens &&
      Contains(sequence.options.end_token_ids, token)) {
    token = 'x';
  }
  sequence.tokens.push_back(token);
  return LogprobsAt(sequence, std::ssize(sequence.tokens) - 1, token);
}

void FakeEngine::EmitRows(Sequence& sequence, int64_t begin, int64_t end) {
  const CapturePlan& plan = sequence.options.capture;
  const auto prompt_length =
      static_cast<int64_t>(sequence.options.prompt.size());
  const auto selected = [&](int64_t position) {
    return plan.rows.Selects(position, sequence.tokens[position],
                             prompt_length);
  };
  for (const HookSelection& selection : plan.hooks) {
    if (!selection.heads.empty()) {
      EmitAttention(sequence, selection, begin, end);
      continue;
    }
    std::vector<float> values(
        hooks_[static_cast<size_t>(selection.hook)].width);
    for (const int32_t layer : selection.layers) {
      for (int64_t position = begin; position < end; ++position) {
        if (!selected(position)) continue;
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] = FakeRowValue(selection.hook, layer, position,
                                   static_cast<int64_t>(i));
        }
        sequence.options.capture_sink->OnRow(
            {.hook = selection.hook,
             .layer = layer,
             .phase =
                 position < prompt_length ? Phase::kPrompt : Phase::kGenerated,
             .position = position,
             .token = sequence.tokens[position],
             .values = values});
      }
    }
  }
  EmitDerived(sequence, begin, end);
  if (!plan.checks) return;
  for (int64_t position = begin; position < end; ++position) {
    if (!selected(position)) continue;
    ++sequence.report.checks.rows_checked;
    sequence.report.checks.resid_mid_checked += options_.num_layers;
    sequence.report.checks.resid_post_checked += options_.num_layers;
    sequence.report.checks.max_sum_relative_error = 1e-7;
  }
}

void FakeEngine::EmitAttention(const Sequence& sequence,
                               const HookSelection& selection, int64_t begin,
                               int64_t end) const {
  const auto prompt_length =
      static_cast<int64_t>(sequence.options.prompt.size());
  for (const LayerHead& at : selection.heads) {
    for (int64_t position = begin; position < end; ++position) {
      const int32_t token = sequence.tokens[position];
      if (!sequence.options.capture.rows.Selects(position, token,
                                                 prompt_length)) {
        continue;
      }
      const int64_t keys = position + 1;
      const int64_t width = KeyRowWidth(keys, selection.top_keys);
      std::vector<float> values(width, 0);
      std::vector<int32_t> positions;
      for (int64_t i = 0; i < std::min(keys, width); ++i) {
        values[i] = 1.0f / static_cast<float>(keys);
        positions.push_back(static_cast<int32_t>(i));
      }
      positions.resize(selection.top_keys);
      sequence.options.capture_sink->OnRow(
          {.hook = selection.hook,
           .layer = at.layer,
           .head = at.head,
           .phase =
               position < prompt_length ? Phase::kPrompt : Phase::kGenerated,
           .position = position,
           .token = token,
           .values = values,
           .ids = positions,
           .key_start = 0,
           .key_count = std::min(keys, width)});
    }
  }
}

PositionLogprobs FakeEngine::LogprobsAt(const Sequence& sequence,
                                        int64_t position, int32_t token) const {
  const LogprobsOptions& wanted = sequence.options.logprobs;
  PositionLogprobs logprobs{.position = position, .token = {token, -1.0f, 1}};
  for (int32_t rank = 1; rank <= wanted.top_n; ++rank) {
    logprobs.top.push_back({rank, -static_cast<float>(rank), rank});
  }
  for (const int32_t id : wanted.of_token_ids) {
    logprobs.of_token_ids.push_back({id, -3.0f, 7});
  }
  return logprobs;
}

void FakeEngine::EmitDerived(const Sequence& sequence, int64_t begin,
                             int64_t end) const {
  const CapturePlan& plan = sequence.options.capture;
  const auto prompt_length =
      static_cast<int64_t>(sequence.options.prompt.size());
  for (size_t k = 0; k < plan.derived.size(); ++k) {
    const DerivedSpec& spec = plan.derived[k];
    if (spec.kind == DerivedKind::kMean) continue;
    const DerivedShape shape =
        ShapeOf(spec, {.num_layers = options_.num_layers, .num_heads = 2});
    const std::vector<float> values(static_cast<size_t>(shape.values), 0.5f);
    const std::vector<int32_t> ids(static_cast<size_t>(shape.ids), 65);
    for (const int32_t layer : spec.where.layers) {
      for (int64_t position = begin; position < end; ++position) {
        const int32_t token = sequence.tokens[position];
        if (!plan.rows.Selects(position, token, prompt_length)) continue;
        sequence.options.capture_sink->OnRow(
            {.derived = static_cast<int32_t>(k),
             .hook = spec.where.hook,
             .layer = layer,
             .phase =
                 position < prompt_length ? Phase::kPrompt : Phase::kGenerated,
             .position = position,
             .token = token,
             .values = values,
             .ids = ids});
      }
    }
  }
}

void FakeEngine::CountEdits(Sequence& sequence, int64_t begin, int64_t end) {
  const SequenceOptions& options = sequence.options;
  std::vector<int64_t>& applied = sequence.report.interventions_applied;
  applied.resize(options.interventions.size());
  for (size_t k = 0; k < applied.size(); ++k) {
    const Intervention& intervention = options.interventions[k];
    for (int64_t position = begin; position < end; ++position) {
      if (intervention.rows.Selects(
              position, sequence.tokens[position],
              static_cast<int64_t>(options.prompt.size()))) {
        applied[k] += static_cast<int64_t>(intervention.where.layers.size());
      }
    }
  }
}

SequenceReport FakeEngine::report(SequenceId id) const {
  return sequences_.at(id).report;
}

KvCacheStats FakeEngine::kv_cache() const {
  return {.block_size = options_.block_size,
          .total_blocks = options_.total_blocks,
          .used_blocks = used_blocks_};
}

}  // namespace headrace
