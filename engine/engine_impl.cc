#include "engine/engine_impl.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/hook_states.h"
#include "engine/sampling/logprobs.h"

namespace headrace {
namespace {

uint64_t IdOf(SequenceId id) { return static_cast<uint64_t>(id); }

bool AllFinite(std::span<const float> values) {
  // All exponent bits set means infinity or NaN; a maximum over the exponents
  // lets the compiler use vectors.
  uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7F800000u);
  }
  return largest != 0x7F800000u;
}

// Whose fault it is depends on whether the request changed the model's rows.
absl::Status NotFinite(int64_t position, const SequenceOptions& options) {
  const std::string what =
      absl::StrCat("logits at position ", position, " are not finite: ");
  return options.interventions.empty()
             ? absl::InternalError(what +
                                   "the model's weights overflow or hold "
                                   "values that are not numbers")
             : absl::InvalidArgumentError(
                   what + "the request's interventions make them overflow");
}

// The leading rows of a prompt that may come from the cache: not those that
// somebody wants to see.
int64_t MaxCachedRows(const SequenceOptions& options) {
  if (options.logprobs.prompt) return 0;
  const auto last = static_cast<int64_t>(options.prompt.size()) - 1;
  if (options.capture.empty() || options.capture.leaves_out_cached) return last;
  return std::min(
      last, options.capture.rows.FirstPromptRow(options.prompt).value_or(last));
}

}  // namespace

// What a row's logits are for: sampling the next token, or the log probability
// of the prompt token that follows.
struct EngineImpl::LogitsRow {
  int32_t step_row;
  int64_t position;  // of the row
  int32_t token;     // in the row
  OpenEntry* entry;
  size_t result;  // index in StepPlan::results
  bool sample;
  bool prompt_logprobs;
};

// One step, laid out.
struct EngineImpl::StepPlan {
  explicit StepPlan(int32_t last_layer) : recorder(last_layer) {}

  std::vector<int32_t> tokens;
  std::vector<StepSequence> sequences;
  std::vector<OpenEntry*> entries;     // one per sequence
  std::vector<LogitsRow> logits_rows;  // ascending by step_row
  StepRecorder recorder;
  StepResult results;
};

EngineImpl::EngineImpl(Parts parts)
    : parts_(std::move(parts)),
      hooks_(DescribeHooks(parts_.model.description)),
      candidates_(static_cast<size_t>(parts_.ops->team().num_threads())) {}

absl::Status EngineImpl::CheckTokens(std::span<const int32_t> tokens) const {
  const int64_t vocab_size = parts_.model.info.config.vocab_size;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "token id ", token, " is not in the vocabulary of ", vocab_size));
    }
  }
  return absl::OkStatus();
}

absl::Status EngineImpl::CheckOptions(const SequenceOptions& options) const {
  const ModelConfig& config = parts_.model.info.config;
  const auto prompt_length = static_cast<int64_t>(options.prompt.size());
  if (prompt_length == 0) {
    return absl::InvalidArgumentError("the prompt is empty");
  }
  if (options.max_rows < prompt_length) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_rows is ", options.max_rows,
                     ", less than the prompt's ", prompt_length));
  }
  RETURN_IF_ERROR(CheckTokens(options.prompt));
  if (options.rope.has_value() != config.rope.has_value()) {
    return absl::InvalidArgumentError(
        "a sequence has a rotary encoding exactly when its model has one");
  }
  if (options.rope.has_value() &&
      static_cast<int64_t>(options.rope->inv_freqs.size()) !=
          parts_.decoder->num_rotary_pairs()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the rotary encoding turns ", options.rope->inv_freqs.size(),
        " pairs of a head; the model's turns ",
        parts_.decoder->num_rotary_pairs()));
  }
  return absl::OkStatus();
}

absl::Status EngineImpl::CheckInterventions(
    std::span<const Intervention> interventions) const {
  for (const Intervention& intervention : interventions) {
    const HookPointState& hook =
        hooks_[static_cast<size_t>(intervention.where.hook)];
    const std::string name(GetHookPointInfo(hook.hook).name);
    if (!hook.writable) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " cannot be changed: ", hook.refusal));
    }
    if (TakesVector(intervention.op) && !intervention.from.has_value() &&
        static_cast<int64_t>(intervention.vector.size()) != hook.width) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the vector of an intervention at ", name, " has ",
          intervention.vector.size(), " values; the hook has ", hook.width));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<KvSequence> EngineImpl::ReserveBlocks(
    const SequenceOptions& options, std::span<const int32_t> tokens,
    int64_t max_cached_rows) {
  KvRequest request{.prompt = tokens,
                    .max_rows = options.max_rows,
                    .prefix_key = std::nullopt,
                    .max_cached_rows = max_cached_rows};
  if (options.prefix_salt.has_value() && options.interventions.empty() &&
      parts_.options.prefix_cache) {
    request.prefix_key =
        PrefixKey{.salt = *options.prefix_salt,
                  .rope_hash = options.rope ? options.rope->hash : 0};
  }
  return parts_.kv_cache.Open(request);
}

absl::StatusOr<OpenedSequence> EngineImpl::OpenSequence(
    SequenceId id, SequenceOptions options) {
  if (open_.contains(id)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", IdOf(id), " is open already"));
  }
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckInterventions(options.interventions));
  ASSIGN_OR_RETURN(KvSequence kv, ReserveBlocks(options, options.prompt,
                                                MaxCachedRows(options)));
  const OpenedSequence opened{.cached_rows = kv.cached_rows};
  const Tokenizer* tokenizer = parts_.model.tokenizer.get();
  Sampler sampler(options.sampling,
                  {.choice = options.choice,
                   .num_real_tokens = tokenizer == nullptr
                                          ? parts_.model.info.config.vocab_size
                                          : tokenizer->vocab_size(),
                   .end_token_ids = options.end_token_ids,
                   .min_tokens = options.min_tokens},
                  options.prompt);
  OpenEntry& entry =
      *open_
           .emplace(id, std::make_unique<OpenEntry>(OpenEntry{
                            .sequence =
                                Sequence(std::move(options), opened.cached_rows,
                                         std::move(sampler)),
                            .kv = std::move(kv)}))
           .first->second;
  MakeDerived(entry.sequence);
  return opened;
}

void EngineImpl::MakeDerived(Sequence& sequence) const {
  const ModelConfig& config = parts_.model.info.config;
  for (const DerivedSpec& spec : sequence.options().capture.derived) {
    sequence.derived().push_back(
        MakeDerivedQuantity(spec, *parts_.decoder,
                            {.num_layers = config.num_hidden_layers,
                             .num_heads = config.num_attention_heads}));
  }
}

void EngineImpl::FinishSequence(SequenceId id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  Sequence& sequence = found->second->sequence;
  for (size_t k = 0; k < sequence.derived().size(); ++k) {
    sequence.derived()[k]->OnEnd([&](const CapturedRow& row) {
      CapturedRow of_quantity = row;
      of_quantity.derived = static_cast<int32_t>(k);
      sequence.options().capture_sink->OnRow(of_quantity);
    });
  }
}

void EngineImpl::CloseSequence(SequenceId id) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  SuspendSequence(id);
  open_.erase(found);
}

void EngineImpl::SuspendSequence(SequenceId id) {
  const auto found = open_.find(id);
  if (found == open_.end() || found->second->suspended) return;
  parts_.kv_cache.Close(found->second->kv.id);
  found->second->suspended = true;
}

absl::StatusOr<OpenedSequence> EngineImpl::ResumeSequence(SequenceId id) {
  const auto found = open_.find(id);
  if (found == open_.end() || !found->second->suspended) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", IdOf(id), " is not suspended"));
  }
  Sequence& sequence = found->second->sequence;
  // What was reported may come from the cache, whoever wants to see it.
  ASSIGN_OR_RETURN(KvSequence kv,
                   ReserveBlocks(sequence.options(), sequence.tokens(),
                                 std::max(MaxCachedRows(sequence.options()),
                                          sequence.reported_rows())));
  const OpenedSequence opened{.cached_rows = kv.cached_rows};
  sequence.Rewind(kv.cached_rows);
  found->second->kv = std::move(kv);
  found->second->suspended = false;
  return opened;
}

SequenceReport EngineImpl::report(SequenceId id) const {
  const auto found = open_.find(id);
  return found == open_.end() ? SequenceReport{}
                              : found->second->sequence.report();
}

KvCacheStats EngineImpl::kv_cache() const {
  const KvCacheUse use = parts_.kv_cache.use();
  return {.block_size = parts_.kv_cache.block_size(),
          .total_blocks = use.total_blocks,
          .used_blocks = use.used_blocks,
          .cached_blocks = use.cached_blocks,
          .prefix_queries = use.prefix_queries,
          .prefix_hits = use.prefix_hits};
}

absl::StatusOr<EngineImpl::StepPlan> EngineImpl::PlanStep(const Batch& batch) {
  StepPlan plan(
      static_cast<int32_t>(parts_.model.info.config.num_hidden_layers) - 1);
  for (const SequenceSlice& slice : batch.slices) {
    const auto found = open_.find(slice.sequence);
    if (found == open_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", IdOf(slice.sequence), " is not open"));
    }
    if (found->second->suspended) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", IdOf(slice.sequence), " is suspended"));
    }
    const int64_t left = found->second->sequence.rows_left();
    if (slice.num_rows < 1 || slice.num_rows > left) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sequence ", IdOf(slice.sequence), " has ", left,
          " rows to compute; the slice asks for ", slice.num_rows));
    }
    RETURN_IF_ERROR(CheckDrafts(slice, found->second->sequence));
    AddSlice(slice, *found->second, plan);
  }
  const auto num_rows = static_cast<int64_t>(plan.tokens.size());
  if (num_rows < 1 || num_rows > parts_.options.max_batch_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch has ", num_rows, " rows; a step takes 1 to ",
                     parts_.options.max_batch_rows));
  }
  return plan;
}

absl::Status EngineImpl::CheckDrafts(const SequenceSlice& slice,
                                     const Sequence& sequence) const {
  if (slice.drafts.empty()) return absl::OkStatus();
  const auto drafts = static_cast<int64_t>(slice.drafts.size());
  if (sequence.options().capture.Averages()) {
    return absl::InvalidArgumentError("a sequence with means takes no drafts");
  }
  if (!slice.sample || slice.num_rows != sequence.rows_left() ||
      sequence.next_row() + slice.num_rows + drafts >
          sequence.options().max_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sequence ", IdOf(slice.sequence), " cannot take ", drafts,
        " drafts: they follow the last token, where one is sampled, within "
        "max_rows of ",
        sequence.options().max_rows));
  }
  return CheckTokens(slice.drafts);
}

void EngineImpl::AddSlice(const SequenceSlice& slice, OpenEntry& entry,
                          StepPlan& plan) {
  Sequence& sequence = entry.sequence;
  const auto first_row = static_cast<int64_t>(plan.tokens.size());
  const int64_t first_position = sequence.next_row();
  const auto num_drafts = static_cast<int64_t>(slice.drafts.size());
  const int64_t num_rows = slice.num_rows + num_drafts;
  const std::span<const int32_t> known = sequence.tokens().subspan(
      static_cast<size_t>(first_position), static_cast<size_t>(slice.num_rows));
  plan.tokens.insert(plan.tokens.end(), known.begin(), known.end());
  plan.tokens.insert(plan.tokens.end(), slice.drafts.begin(),
                     slice.drafts.end());
  const std::span<const int32_t> tokens =
      std::span(plan.tokens).subspan(static_cast<size_t>(first_row));
  const auto& rope = sequence.options().rope;
  plan.entries.push_back(&entry);
  plan.sequences.push_back({.first_row = first_row,
                            .num_rows = num_rows,
                            .first_position = first_position,
                            .block_table = entry.kv.block_table,
                            .rope = rope.has_value() ? &*rope : nullptr});
  plan.recorder.AddSlice({.plan = &sequence.options().capture,
                          .sink = sequence.options().capture_sink,
                          .derived = sequence.derived(),
                          .checks = &sequence.report().checks,
                          .interventions = sequence.options().interventions,
                          .applied = sequence.report().interventions_applied,
                          .first_row = first_row,
                          .first_position = first_position,
                          .reported_rows = sequence.reported_rows(),
                          .draft_rows = num_drafts,
                          .prompt_length = sequence.prompt_length(),
                          .tokens = tokens});
  const auto last_position = static_cast<int64_t>(sequence.tokens().size()) - 1;
  for (int64_t i = 0; i < num_rows; ++i) {
    const int64_t position = first_position + i;
    const bool sample = slice.sample && position >= last_position;
    const bool prompt_logprobs = sequence.options().logprobs.prompt &&
                                 position >= sequence.reported_rows() &&
                                 position + 1 < sequence.prompt_length();
    if (!sample && !prompt_logprobs) continue;
    plan.logits_rows.push_back({.step_row = static_cast<int32_t>(first_row + i),
                                .position = position,
                                .token = tokens[static_cast<size_t>(i)],
                                .entry = &entry,
                                .result = plan.results.sequences.size(),
                                .sample = sample,
                                .prompt_logprobs = prompt_logprobs});
  }
  plan.results.sequences.push_back({.sequence = slice.sequence,
                                    .status = absl::OkStatus(),
                                    .sampled = {},
                                    .prompt_logprobs = {}});
}

void EngineImpl::UseLogits(const LogitsRow& row, std::span<const float> logits,
                           Candidates& scratch, SequenceResult& result) {
  Sequence& sequence = row.entry->sequence;
  const LogprobsOptions& logprobs = sequence.options().logprobs;
  // Of a draft that was not drawn: what came before is something else.
  if (row.sample && !result.sampled.empty() &&
      (sequence.ended() ||
       row.position + 1 != static_cast<int64_t>(sequence.tokens().size()) ||
       row.token != sequence.tokens().back())) {
    return;
  }
  if (!result.status.ok()) return;
  if (!AllFinite(logits)) {
    result.status = NotFinite(row.position, sequence.options());
    return;
  }
  if (row.prompt_logprobs) {
    const int32_t next =
        sequence.tokens()[static_cast<size_t>(row.position) + 1];
    result.prompt_logprobs.push_back(
        ComputeLogprobs(logits, row.position + 1, next, logprobs));
  }
  if (!row.sample) return;
  const absl::StatusOr<int32_t> token =
      sequence.sampler().Sample(logits, scratch);
  if (!token.ok()) {
    result.status = token.status();
    return;
  }
  if (logprobs.enabled) {
    result.sampled.push_back(
        ComputeLogprobs(logits, row.position + 1, *token, logprobs));
  } else {
    result.sampled.push_back({.position = row.position + 1,
                              .token = {.token = *token},
                              .top = {},
                              .of_token_ids = {}});
  }
  sequence.Append(*token);
}

void EngineImpl::ComputeLogits(StepPlan& plan) {
  StepObserver* observer = plan.recorder.empty() ? nullptr : &plan.recorder;
  if (observer != nullptr) {
    parts_.decoder->FinalNorm(
        plan.recorder.RowsWanting(
            {HookPoint::kFinalNormScale, HookPoint::kFinalNormOut}),
        *observer);
  }
  // Rows that are sampled, scored, or captured, once each.
  std::vector<int32_t> rows = plan.recorder.RowsWanting({HookPoint::kLogits});
  for (const LogitsRow& row : plan.logits_rows) {
    rows.push_back(row.step_row);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  const auto vocab_size =
      static_cast<size_t>(parts_.model.info.config.vocab_size);
  size_t next = 0;  // in plan.logits_rows
  parts_.decoder->Logits(
      rows, observer,
      [&](std::span<const int32_t> tile, std::span<const float> logits) {
        const size_t begin = next;
        while (next < plan.logits_rows.size() &&
               plan.logits_rows[next].step_row <= tile.back()) {
          ++next;
        }
        // Rows of one sequence stay in order: they share a result.
        std::vector<std::pair<size_t, size_t>> groups;
        for (size_t i = begin; i < next; ++i) {
          if (groups.empty() ||
              plan.logits_rows[i].result != plan.logits_rows[i - 1].result) {
            groups.emplace_back(i, i);
          }
          groups.back().second = i + 1;
        }
        parts_.ops->team().ParallelFor(
            static_cast<int64_t>(groups.size()), [&](int64_t g, int thread) {
              const auto [first, last] = groups[static_cast<size_t>(g)];
              for (size_t i = first; i < last; ++i) {
                const LogitsRow& row = plan.logits_rows[i];
                const auto at = static_cast<size_t>(
                    std::lower_bound(tile.begin(), tile.end(), row.step_row) -
                    tile.begin());
                UseLogits(row, logits.subspan(at * vocab_size, vocab_size),
                          candidates_[static_cast<size_t>(thread)],
                          plan.results.sequences[row.result]);
              }
            });
      });
}

absl::StatusOr<StepResult> EngineImpl::Step(const Batch& batch) {
  ASSIGN_OR_RETURN(StepPlan plan, PlanStep(batch));
  std::vector<int32_t> outputs;
  outputs.reserve(plan.logits_rows.size());
  for (const LogitsRow& row : plan.logits_rows) outputs.push_back(row.step_row);
  parts_.decoder->Forward(
      {.tokens = plan.tokens,
       .sequences = plan.sequences,
       .outputs = outputs,
       .observer = plan.recorder.empty() ? nullptr : &plan.recorder},
      parts_.kv_storage);
  ComputeLogits(plan);
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    OpenEntry& entry = *plan.entries[i];
    const int64_t drafts = static_cast<int64_t>(batch.slices[i].drafts.size());
    const int64_t drawn =
        std::max<int64_t>(0, std::ssize(plan.results.sequences[i].sampled) - 1);
    const int64_t rows = plan.sequences[i].num_rows - drafts + drawn;
    if (drafts > 0) plan.recorder.Settle(plan.sequences[i].first_row, rows);
    entry.sequence.Advance(rows);
    parts_.kv_cache.MarkComputed(entry.kv.id, entry.sequence.next_row());
  }
  return std::move(plan.results);
}

}  // namespace headrace
