#include "server/batching/scheduler.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/batching/fair_order.h"

namespace headrace {

namespace {

// Fewer prompt rows than this waste a pass over the weights, so a mixed step
// has them even where a single row takes long.
constexpr int64_t kMinPromptRows = 16;

bool RunsBefore(const RunningChoice& a, const RunningChoice& b) {
  return std::tuple(-a.priority, a.order, a.id) <
         std::tuple(-b.priority, b.order, b.id);
}

// What a slice sends to its reader.
struct Demand {
  int64_t token_events = 0;
  int64_t ring_bytes = 0;
};

Demand DemandOf(const RunningChoice& choice, int64_t num_rows) {
  const int64_t rows = num_rows - choice.replay_rows;
  if (rows <= 0) return {};
  if (choice.prompt_rows == 0) {
    const int64_t captured = (choice.captures_token ? 1 : 0) +
                             (choice.captures_drafts ? rows - 1 : 0);
    return {rows, captured * choice.ring_cost};
  }
  // The row that ends the prompt also yields the first token.
  const int64_t sampled = rows == choice.prompt_rows ? 1 : 0;
  const int64_t captured =
      choice.captured_rows.empty()
          ? 0
          : choice.captured_rows[rows] - choice.captured_rows[0];
  return {(choice.prompt_events ? rows : 0) + sampled,
          captured * choice.ring_cost};
}

bool Decodes(const RunningChoice& choice) {
  return choice.replay_rows == 0 && choice.prompt_rows == 0;
}

bool Fits(const Demand& demand, int64_t token_room, int64_t ring_room) {
  return demand.token_events <= token_room && demand.ring_bytes <= ring_room;
}

// The most rows, up to `wanted`, whose demand fits; demand grows with rows.
int64_t FittingRows(const RunningChoice& choice, int64_t wanted,
                    int64_t token_room, int64_t ring_room) {
  int64_t low = 0;
  int64_t high = wanted;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (Fits(DemandOf(choice, middle), token_room, ring_room)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

class StepPlanner {
 public:
  explicit StepPlanner(std::vector<ReaderState> readers)
      : readers_(std::move(readers)) {}

  // Gives `choice` up to `wanted` rows; returns how many.
  int64_t Plan(const RunningChoice& choice, int64_t wanted);
  StepDecision Take() { return std::move(decision_); }

 private:
  int64_t Run(const RunningChoice& choice, int64_t rows, bool drop_rows);

  std::vector<ReaderState> readers_;
  StepDecision decision_;
};

int64_t StepPlanner::Plan(const RunningChoice& choice, int64_t wanted) {
  const ReaderState& reader = readers_[choice.reader];
  // Half of the buffers is what a chunk of the prompt may fill: the reader
  // empties one half while the next step fills the other. It always holds one
  // row (CaptureLayout::ring_bytes).
  const int64_t half = std::max<int64_t>(
      1, FittingRows(choice, wanted, reader.token_capacity / 2,
                     reader.ring_capacity / 2));
  const int64_t rows =
      FittingRows(choice, wanted, reader.token_room, reader.ring_room);
  switch (reader.policy) {
    case SlowReaderPolicy::kPauseSequence:
      // Wait for half of the buffers rather than crawl row by row.
      if (rows >= half) return Run(choice, rows, /*drop_rows=*/false);
      decision_.paused.push_back(choice.id);
      return 0;
    case SlowReaderPolicy::kDropWithGaps: {
      const Demand demand = DemandOf(choice, half);
      if (demand.token_events > reader.token_room) {
        decision_.paused.push_back(choice.id);  // tokens are never dropped
        return 0;
      }
      return Run(choice, half, demand.ring_bytes > reader.ring_room);
    }
    case SlowReaderPolicy::kCancel:
      if (rows >= half) return Run(choice, half, /*drop_rows=*/false);
      decision_.overrun.push_back(choice.id);
      return 0;
  }
  return 0;
}

int64_t StepPlanner::Run(const RunningChoice& choice, int64_t rows,
                         bool drop_rows) {
  ReaderState& reader = readers_[choice.reader];
  const Demand demand = DemandOf(choice, rows);
  reader.token_room -= demand.token_events;
  if (!drop_rows) reader.ring_room -= demand.ring_bytes;
  decision_.slices.push_back({choice.id, rows, drop_rows});
  return rows;
}

// Prompt rows that may ride beside decoding sequences.
int64_t PromptRowsBesideDecode(const StepState& state,
                               const SchedulerLimits& limits) {
  const absl::Duration time_per_row = state.costs.per_row();
  if (time_per_row <= absl::ZeroDuration()) {
    return std::min(kMinPromptRows, limits.max_batch_rows);
  }
  const double rows = absl::FDivDuration(limits.max_decode_stall, time_per_row);
  return std::min(limits.max_batch_rows,
                  static_cast<int64_t>(std::clamp(
                      rows, static_cast<double>(kMinPromptRows), 1e9)));
}

// Chooses drafts for the sequences of a step that only decodes.
class DraftPlanner {
 public:
  DraftPlanner(const StepCosts& costs, int64_t decoding)
      : costs_(costs),
        rows_(decoding),
        tokens_(static_cast<double>(decoding)) {}

  // How many of the choice's drafts ride along.
  int64_t Take(const RunningChoice& choice) {
    const double step = Seconds(rows_);
    if (choice.drafts == 0 || step <= 0) return 0;
    double best_rate = kWorthwhile * tokens_ / step;
    int64_t best = 0;
    double best_tokens = 0;
    double come = 1;
    double tokens = tokens_;
    for (int64_t drafts = 1; drafts <= choice.drafts; ++drafts) {
      come *= choice.draft_acceptance;
      tokens += come;
      const double rate = tokens / Seconds(rows_ + drafts);
      if (rate <= best_rate) continue;
      best_rate = rate;
      best = drafts;
      best_tokens = tokens;
    }
    if (best > 0) {
      rows_ += best;
      tokens_ = best_tokens;
    }
    return best;
  }

 private:
  static constexpr double kWorthwhile = 1.05;

  double Seconds(int64_t rows) const {
    return absl::ToDoubleSeconds(costs_.OfStep(rows));
  }

  const StepCosts& costs_;
  int64_t rows_;
  double tokens_;
};

// Whom to suspend so that `choice` gets the blocks and the place it lacks.
std::vector<SequenceId> DecideSuspension(
    const WaitingChoice& choice, int64_t blocks_lacking, int64_t slots_lacking,
    const std::vector<AdmittedChoice>& admitted) {
  std::vector<AdmittedChoice> victims;
  for (const AdmittedChoice& running : admitted) {
    if (running.priority < choice.priority) victims.push_back(running);
  }
  std::sort(victims.begin(), victims.end(),
            [](const AdmittedChoice& a, const AdmittedChoice& b) {
              return std::tuple(a.priority, b.order, b.id) <
                     std::tuple(b.priority, a.order, a.id);
            });
  size_t count = 0;
  while (count < victims.size() && (blocks_lacking > 0 || slots_lacking > 0)) {
    blocks_lacking -= victims[count++].blocks;
    --slots_lacking;
  }
  if (blocks_lacking > 0 || slots_lacking > 0) return {};
  victims.resize(count);
  // Those that came to be unneeded run on, the most important first.
  for (auto victim = victims.end(); victim != victims.begin();) {
    --victim;
    if (blocks_lacking + victim->blocks > 0 || slots_lacking + 1 > 0) continue;
    blocks_lacking += victim->blocks;
    ++slots_lacking;
    victim = victims.erase(victim);
  }
  std::vector<SequenceId> ids;
  ids.reserve(victims.size());
  for (const AdmittedChoice& victim : victims) ids.push_back(victim.id);
  return ids;
}

}  // namespace

AdmissionDecision DecideAdmission(const AdmissionState& state,
                                  const SchedulerLimits& limits) {
  FairOrder<WaitingChoice> waiting(state.waiting, state.accounts);
  AdmissionDecision decision;
  int64_t free_blocks = state.free_blocks;
  int64_t slots = limits.max_num_seqs - state.running;
  int64_t ring_bytes = state.ring_bytes;
  bool rings_full = false;
  while (const WaitingChoice* const choice = waiting.Take()) {
    if (choice->ring_bytes > 0) {
      rings_full |= ring_bytes > 0 &&
                    ring_bytes + choice->ring_bytes > limits.max_ring_bytes;
      if (rings_full) continue;
    }
    if (slots <= 0 || choice->blocks > free_blocks) {
      decision.suspend = DecideSuspension(*choice, choice->blocks - free_blocks,
                                          1 - slots, state.admitted);
      break;
    }
    ring_bytes += choice->ring_bytes;
    free_blocks -= choice->blocks;
    --slots;
    waiting.Charge(choice->tenant, choice->cost);
    decision.admit.push_back(choice->id);
  }
  return decision;
}

std::optional<uint64_t> DecideDisplacement(
    std::span<const QueuedRequest> queued, const std::string& tenant,
    int32_t priority) {
  absl::flat_hash_map<std::string, int64_t> places;
  for (const QueuedRequest& request : queued) ++places[request.tenant];
  const int64_t own = places[tenant];
  const QueuedRequest* displaced = nullptr;
  const auto rank = [&](const QueuedRequest& request) {
    return std::tuple(places[request.tenant], -request.priority, request.id);
  };
  for (const QueuedRequest& request : queued) {
    if (request.priority > priority || places[request.tenant] < own + 2) {
      continue;
    }
    if (displaced == nullptr || rank(request) > rank(*displaced)) {
      displaced = &request;
    }
  }
  if (displaced == nullptr) return std::nullopt;
  return displaced->id;
}

StepDecision DecideStep(const StepState& state, const SchedulerLimits& limits) {
  std::vector<RunningChoice> running = state.running;
  std::sort(running.begin(), running.end(), RunsBefore);
  StepPlanner planner(state.readers);
  int64_t budget = limits.max_batch_rows;

  const int64_t num_decoding =
      std::count_if(running.begin(), running.end(), Decodes);
  const bool may_draft = num_decoding == std::ssize(running) &&
                         num_decoding <= kMaxDraftingSequences;
  DraftPlanner drafts(state.costs, num_decoding);
  int64_t decoding = 0;
  int64_t to_come = num_decoding;  // each of them has a row in the budget
  for (const RunningChoice& choice : running) {
    if (!Decodes(choice)) continue;
    --to_come;
    if (budget <= decoding) continue;
    int64_t rows = 1;
    if (may_draft && decoding + to_come + 1 + choice.drafts <= budget) {
      rows += drafts.Take(choice);
    }
    decoding += planner.Plan(choice, rows);
  }
  budget -= decoding;
  if (decoding > 0) {
    budget = std::min(budget, PromptRowsBesideDecode(state, limits));
  }
  std::erase_if(running, Decodes);
  FairOrder<RunningChoice> prompts(std::move(running), state.accounts);
  while (budget > 0) {
    const RunningChoice* const choice = prompts.Take();
    if (choice == nullptr) break;
    const int64_t wanted =
        choice->replay_rows + std::max<int64_t>(1, choice->prompt_rows);
    const int64_t rows = planner.Plan(*choice, std::min(budget, wanted));
    prompts.Charge(choice->tenant, ServiceCost(rows, 0));
    budget -= rows;
  }
  return planner.Take();
}

}  // namespace headrace
