// What prompt lookup gains and costs: one greedy request at a time through the
// batch loop, with and without drafts in turn, on a prompt that asks for a
// repetition and on ordinary ones. Prints the ratio of the times that decoding
// took; checks that the tokens are the same.
//
// --clock=cpu counts the processor time of this process, which a busy machine
// disturbs less; use it with --threads=1.
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/log/check.h"
#include "absl/time/clock.h"
#include "server/batching/batch_loop.h"

ABSL_FLAG(std::string, model, "", "Model file.");
ABSL_FLAG(int64_t, drafts, 8, "As --speculative_ngram of the server.");
ABSL_FLAG(int64_t, tokens, 160, "Generated per request.");
ABSL_FLAG(int, repeat, 5, "Pairs of runs per prompt.");
ABSL_FLAG(int, threads, 0, "Compute threads; 0: what the machine allows.");
ABSL_FLAG(std::string, clock, "wall", "wall or cpu.");

namespace headrace {
namespace {

struct Prompt {
  const char* name;
  const char* text;
};

constexpr Prompt kPrompts[] = {
    {"repeat a list",
     "<|im_start|>user\nRepeat this list exactly:\n1. apples from the north "
     "field\n2. pears from the old orchard\n3. plums from the river bank\n4. "
     "cherries from the stone wall\n5. quinces from the kitchen garden\n6. "
     "medlars from the churchyard\n<|im_end|>\n<|im_start|>assistant\n1. "
     "apples "
     "from the north field\n"},
    {"explain",
     "<|im_start|>user\nExplain how a water wheel works.<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"story", "It was a cold morning in the mountains when the young engineer"},
    {"facts", "The history of the city of Lisbon begins"},
};

absl::Time ProcessorTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return absl::UnixEpoch() + absl::DurationFromTimeval(usage.ru_utime) +
         absl::DurationFromTimeval(usage.ru_stime);
}

struct Outcome {
  std::vector<int32_t> tokens;
  absl::Duration decode;
  BatchStats stats;  // of this run
};

class Runner {
 public:
  Runner(Engine& engine, int64_t drafts, std::function<absl::Time()> now)
      : engine_(engine),
        now_(now),
        loop_(&engine, {.batcher = {.max_drafts = drafts, .now = now}}) {}

  Outcome Run(const std::string& prompt, int64_t max_tokens) {
    Request request;
    SequenceOptions& sequence = request.sequence;
    sequence.prompt =
        engine_.tokenizer()->Encode(prompt, {.parse_special = true});
    sequence.max_rows = std::ssize(sequence.prompt) + max_tokens;
    sequence.rope = engine_.model().rope;
    sequence.sampling.temperature = 0;
    request.stop.max_tokens = max_tokens;
    auto stream = std::make_shared<EventStream>(request.layout, 4096,
                                                /*on_events=*/nullptr);
    const BatchStats before = loop_.stats();
    CHECK_OK(loop_.Submit({.request = std::move(request), .stream = stream})
                 .status());
    Outcome outcome;
    absl::Time first;
    bool done = false;
    while (!done) {
      loop_.RunOnce();
      while (auto event = stream->Pop()) {
        if (const auto* token = std::get_if<TokenEvent>(&*event)) {
          if (outcome.tokens.empty()) first = now_();
          outcome.tokens.push_back(token->token);
        }
        done |= std::holds_alternative<EndEvent>(*event);
      }
    }
    outcome.decode = now_() - first;
    outcome.stats = loop_.stats();
    outcome.stats.steps -= before.steps;
    outcome.stats.drafted_tokens -= before.drafted_tokens;
    outcome.stats.accepted_tokens -= before.accepted_tokens;
    return outcome;
  }

 private:
  Engine& engine_;
  const std::function<absl::Time()> now_;
  BatchLoop loop_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Main() {
  const bool cpu = absl::GetFlag(FLAGS_clock) == "cpu";
  const std::function<absl::Time()> now =
      cpu ? std::function<absl::Time()>(ProcessorTime) : absl::Now;
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Create({.model_path = absl::GetFlag(FLAGS_model),
                      .num_threads = absl::GetFlag(FLAGS_threads)});
  CHECK_OK(engine.status());
  Runner plain(**engine, 0, now);
  Runner drafting(**engine, absl::GetFlag(FLAGS_drafts), now);
  const int64_t tokens = absl::GetFlag(FLAGS_tokens);
  for (const Prompt& prompt : kPrompts) {
    std::vector<double> ratios;
    std::vector<double> milliseconds;
    Outcome last;
    for (int i = 0; i < absl::GetFlag(FLAGS_repeat); ++i) {
      const Outcome without = plain.Run(prompt.text, tokens);
      last = drafting.Run(prompt.text, tokens);
      CHECK(last.tokens == without.tokens) << "drafts changed the tokens";
      ratios.push_back(absl::FDivDuration(without.decode, last.decode));
      milliseconds.push_back(absl::ToDoubleMilliseconds(without.decode) /
                             static_cast<double>(tokens - 1));
    }
    std::printf(
        "%-14s %6.2f ms/token without; %5.2f times as fast with (%.2f to "
        "%.2f); %ld steps, %ld drafted, %ld accepted\n",
        prompt.name, Median(milliseconds), Median(ratios),
        *std::min_element(ratios.begin(), ratios.end()),
        *std::max_element(ratios.begin(), ratios.end()),
        static_cast<long>(last.stats.steps),
        static_cast<long>(last.stats.drafted_tokens),
        static_cast<long>(last.stats.accepted_tokens));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  headrace::Main();
  return 0;
}
