#include "engine/bench/bench.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace headrace {
namespace {

// Tokens that no prefix cache has seen: a different stream each time.
std::vector<int32_t> RandomPrompt(int64_t length, int64_t vocab_size,
                                  uint64_t& state) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < length; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    tokens.push_back(static_cast<int32_t>((state >> 33) %
                                          static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

class Runner {
 public:
  Runner(Engine& engine, const BenchOptions& options,
         const std::function<absl::Time()>& now)
      : engine_(engine), options_(options), now_(now) {}

  // Seconds to compute `prompt` rows after `depth` others.
  absl::StatusOr<double> Prefill() {
    const SequenceId id{next_id_++};
    RETURN_IF_ERROR(Open(id, options_.depth + options_.prompt, 0));
    absl::StatusOr<double> seconds = [&]() -> absl::StatusOr<double> {
      RETURN_IF_ERROR(Compute(id, options_.depth));
      const absl::Time start = now_();
      RETURN_IF_ERROR(Compute(id, options_.prompt));
      return absl::ToDoubleSeconds(now_() - start);
    }();
    engine_.CloseSequence(id);
    return seconds;
  }

  // Seconds for `generate` steps of `batch` sequences, one token each.
  absl::StatusOr<double> Decode() {
    std::vector<SequenceId> ids;
    absl::StatusOr<double> seconds = DecodeOpened(ids);
    for (const SequenceId id : ids) engine_.CloseSequence(id);
    return seconds;
  }

 private:
  absl::Status Open(SequenceId id, int64_t prompt, int64_t generated) {
    SequenceOptions sequence;
    sequence.prompt =
        RandomPrompt(prompt, engine_.model().config.vocab_size, random_);
    sequence.max_rows = prompt + generated;
    RopeRequest request;
    request.max_context = 0;
    const RopeResolution rope =
        ResolveRequestRope(engine_.model(), request, sequence.max_rows);
    if (!rope.violations.empty()) {
      return absl::InvalidArgumentError(rope.violations.front().description);
    }
    sequence.rope = rope.rope;
    sequence.sampling.temperature = 0;
    return engine_.OpenSequence(id, std::move(sequence)).status();
  }

  absl::Status Compute(SequenceId id, int64_t rows) {
    constexpr int64_t kChunk = 512;
    while (rows > 0) {
      const int64_t chunk = std::min(rows, kChunk);
      rows -= chunk;
      RETURN_IF_ERROR(Step({.slices = {{.sequence = id, .num_rows = chunk}}}));
    }
    return absl::OkStatus();
  }

  absl::Status Step(const Batch& batch) {
    ASSIGN_OR_RETURN(const StepResult result, engine_.Step(batch));
    for (const SequenceResult& sequence : result.sequences) {
      RETURN_IF_ERROR(sequence.status);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<double> DecodeOpened(std::vector<SequenceId>& ids) {
    const int64_t prompt = std::max<int64_t>(options_.depth, 1);
    Batch step;
    for (int64_t i = 0; i < options_.batch; ++i) {
      const SequenceId id{next_id_++};
      RETURN_IF_ERROR(Open(id, prompt, options_.generate));
      ids.push_back(id);
      RETURN_IF_ERROR(Compute(id, prompt));
      step.slices.push_back({.sequence = id, .num_rows = 1});
    }
    const absl::Time start = now_();
    for (int64_t i = 0; i < options_.generate; ++i) {
      RETURN_IF_ERROR(Step(step));
    }
    return absl::ToDoubleSeconds(now_() - start);
  }

  Engine& engine_;
  const BenchOptions& options_;
  const std::function<absl::Time()>& now_;
  uint64_t next_id_ = 1;
  uint64_t random_ = 1;
};

nlohmann::ordered_json Summary(std::vector<double> rates) {
  std::sort(rates.begin(), rates.end());
  return {{"median", rates[rates.size() / 2]},
          {"min", rates.front()},
          {"max", rates.back()}};
}

// Multiplications and additions of one prompt token with the weights of the
// blocks: attention's own and the head's, of the last token alone, left out.
int64_t OperationsPerPromptToken(const ModelInfo& model) {
  const int64_t tables = model.config.tie_word_embeddings ? 1 : 2;
  return 2 * (model.parameter_count -
              tables * model.config.vocab_size * model.config.hidden_size);
}

absl::Status CheckOptions(const BenchOptions& options) {
  const std::pair<const char*, int64_t> at_least_zero[] = {
      {"prompt", options.prompt},
      {"generate", options.generate},
      {"depth", options.depth},
      {"batch", options.batch - 1},
      {"repeat", options.repeat - 1}};
  for (const auto& [name, value] : at_least_zero) {
    if (value < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is below its range"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> RunBench(
    Engine& engine, const BenchOptions& options,
    const std::function<absl::Time()>& now,
    const std::function<void(int64_t, int64_t)>& on_run) {
  RETURN_IF_ERROR(CheckOptions(options));
  Runner runner(engine, options, now);
  std::vector<double> prefill;
  std::vector<double> decode;
  for (int64_t i = 0; i < options.repeat; ++i) {
    if (options.prompt > 0) {
      ASSIGN_OR_RETURN(const double seconds, runner.Prefill());
      prefill.push_back(static_cast<double>(options.prompt) / seconds);
    }
    if (options.generate > 0) {
      ASSIGN_OR_RETURN(const double seconds, runner.Decode());
      decode.push_back(static_cast<double>(options.generate * options.batch) /
                       seconds);
    }
    on_run(i + 1, options.repeat);
  }
  const ModelInfo& model = engine.model();
  nlohmann::ordered_json out;
  out["prefill_tokens_per_second"] =
      prefill.empty() ? nlohmann::ordered_json() : Summary(prefill);
  out["decode_tokens_per_second"] =
      decode.empty() ? nlohmann::ordered_json() : Summary(decode);
  out["weight_bytes"] = model.weight_bytes;
  out["operations_per_prompt_token"] = OperationsPerPromptToken(model);
  // Each decode step reads every weight once, whatever the batch.
  out["decode_weight_bytes_per_second"] = nullptr;
  if (!decode.empty()) {
    const double steps = Summary(decode)["median"].get<double>() /
                         static_cast<double>(options.batch);
    out["decode_weight_bytes_per_second"] =
        steps * static_cast<double>(model.weight_bytes);
  }
  out["threads"] = model.num_threads;
  out["isa"] = model.isa;
  out["numerics"] = model.numerics == Numerics::kExact ? "exact" : "fast";
  out["kv_cache_dtype"] = LayoutOf(model.kv_cache_dtype).name;
  out["model"] = model.config.name;
  return out;
}

}  // namespace headrace
