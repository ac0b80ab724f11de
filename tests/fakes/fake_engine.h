// An engine without a model: tokens and captured rows are simple functions
// that a test can repeat, and everything it was asked to do is on record. It
// keeps the rules of Engine strictly and refuses a batch that breaks them.
#ifndef HEADRACE_TESTS_FAKES_FAKE_ENGINE_H_
#define HEADRACE_TESTS_FAKES_FAKE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/fakes/fake_tokenizer.h"

namespace headrace {

struct FakeEngineOptions {
  int64_t total_blocks = 64;
  int64_t block_size = 16;
  int64_t context_length = 512;
  int64_t hidden_size = 8;
  int64_t num_layers = 2;
  bool has_tokenizer = true;
  bool adds_bos = false;
  std::string chat_template;  // empty: none
  bool prefix_cache = true;
};

// The next token after `tokens` of a sequence.
using NextToken = std::function<int32_t(std::span<const int32_t> tokens,
                                        const SequenceOptions& options)>;

// Letters that depend on all tokens; on seed and choice too when the
// temperature is above 0.
int32_t FakeNextToken(std::span<const int32_t> tokens,
                      const SequenceOptions& options);

// `values[i]` of a captured row.
float FakeRowValue(HookPoint hook, int32_t layer, int64_t position, int64_t i);

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(FakeEngineOptions options = {});

  // --- What a test sets before the loop runs.
  NextToken next_token = FakeNextToken;
  // Called at the start of every Step(); may block.
  std::function<void(const Batch&)> on_step;
  // A sequence's own trouble after computing `tokens`.
  std::function<absl::Status(std::span<const int32_t> tokens)> trouble;
  // The next Step() fails as a whole with this.
  absl::Status refuse_step;

  // --- What it was asked. Not while another thread steps.
  const std::vector<Batch>& steps() const { return steps_; }
  int64_t open_sequences() const {
    return static_cast<int64_t>(sequences_.size());
  }
  int64_t rows_computed() const { return rows_computed_; }
  int64_t opened() const { return opened_; }
  int64_t suspensions() const { return suspensions_; }

  const ModelInfo& model() const override { return model_; }
  const std::vector<HookPointState>& hooks() const override { return hooks_; }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  const ChatTemplate* chat_template() const override {
    return chat_template_.get();
  }
  void ReleaseFilePages() const override {}
  absl::StatusOr<OpenedSequence> OpenSequence(SequenceId id,
                                              SequenceOptions options) override;
  void FinishSequence(SequenceId id) override;
  void CloseSequence(SequenceId id) override;
  void SuspendSequence(SequenceId id) override;
  absl::StatusOr<OpenedSequence> ResumeSequence(SequenceId id) override;
  absl::StatusOr<StepResult> Step(const Batch& batch) override;
  SequenceReport report(SequenceId id) const override;
  KvCacheStats kv_cache() const override;

 private:
  struct Sequence {
    SequenceOptions options;
    std::vector<int32_t> tokens;  // prompt and sampled
    int64_t next_row = 0;
    int64_t reported_rows = 0;
    bool suspended = false;
    SequenceReport report;
  };
  struct CachedPrefix {
    uint64_t salt;
    uint64_t rope_hash;
    std::vector<int32_t> tokens;
  };

  int64_t CachedRows(const SequenceOptions& options) const;
  absl::Status TakeBlocks(int64_t max_rows);
  absl::Status CheckSlice(const SequenceSlice& slice) const;
  SequenceResult RunSlice(const SequenceSlice& slice);
  PositionLogprobs Sample(Sequence& sequence);
  void EmitRows(Sequence& sequence, int64_t begin, int64_t end);
  // One of kAttnProbs: every value 1 / keys.
  void EmitAttention(const Sequence& sequence, const HookSelection& selection,
                     int64_t begin, int64_t end) const;
  // Every value 0.5, every id 65; no attributions.
  void EmitDerived(const Sequence& sequence, int64_t begin, int64_t end) const;
  // Counts the rows that interventions would change; changes none.
  static void CountEdits(Sequence& sequence, int64_t begin, int64_t end);
  PositionLogprobs LogprobsAt(const Sequence& sequence, int64_t position,
                              int32_t token) const;

  const FakeEngineOptions options_;
  ModelInfo model_;
  std::vector<HookPointState> hooks_;
  std::unique_ptr<FakeTokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  std::map<SequenceId, Sequence> sequences_;
  std::vector<CachedPrefix> prefixes_;
  std::vector<Batch> steps_;
  int64_t used_blocks_ = 0;
  std::atomic<int64_t> rows_computed_ = 0;
  std::atomic<int64_t> opened_ = 0;
  int64_t suspensions_ = 0;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_FAKES_FAKE_ENGINE_H_
