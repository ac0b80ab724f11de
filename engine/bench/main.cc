// headrace-bench: flags to options, a run, a report.
#include <sys/resource.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/log/initialize.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "engine/bench/bench.h"
#include "engine/engine.h"
#include "engine/numerics_options.h"
#include "unistd.h"

ABSL_FLAG(std::string, model, "", "Model file (.gguf, .bin) or folder.");
ABSL_FLAG(int64_t, prompt, 512, "Tokens of one prefill run; 0: none.");
ABSL_FLAG(int64_t, generate, 128, "Tokens of one decode run; 0: none.");
ABSL_FLAG(int64_t, depth, 0, "Tokens in the context before a run begins.");
ABSL_FLAG(int64_t, batch, 1, "Sequences that decode together.");
ABSL_FLAG(int64_t, repeat, 5, "Runs of each kind.");
ABSL_FLAG(int, threads, 0, "Compute threads; 0: what the machine allows.");
ABSL_FLAG(std::string, numerics, "fast", headrace::kNumericsHelp);
ABSL_FLAG(std::string, kv_cache_dtype, "auto", headrace::kKvCacheDtypeHelp);
ABSL_FLAG(std::string, packed_cache_dir, "",
          "As of headrace-server: weights packed before are mapped.");
ABSL_FLAG(bool, json, false, "Print one JSON object.");

namespace headrace {
namespace {

int64_t PeakRssBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

void PrintRate(const char* name, const nlohmann::ordered_json& rate) {
  if (rate.is_null()) return;
  absl::PrintF("%-8s %10.2f tokens/s  (min %.2f, max %.2f)\n", name,
               rate["median"].get<double>(), rate["min"].get<double>(),
               rate["max"].get<double>());
}

absl::Status Run() {
  const std::string numerics = absl::GetFlag(FLAGS_numerics);
  if (absl::GetFlag(FLAGS_model).empty()) {
    return absl::InvalidArgumentError("--model is required");
  }
  EngineOptions options;
  options.model_path = absl::GetFlag(FLAGS_model);
  options.num_threads = absl::GetFlag(FLAGS_threads);
  RETURN_IF_ERROR(
      ReadNumerics(numerics, absl::GetFlag(FLAGS_kv_cache_dtype), options));
  options.prefix_cache = false;
  options.packed_cache_dir = absl::GetFlag(FLAGS_packed_cache_dir);
  const absl::Time start = absl::Now();
  auto engine = Engine::Create(std::move(options));
  if (!engine.ok()) return engine.status();
  const double load_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  auto report = RunBench(
      **engine,
      {.prompt = absl::GetFlag(FLAGS_prompt),
       .generate = absl::GetFlag(FLAGS_generate),
       .depth = absl::GetFlag(FLAGS_depth),
       .batch = absl::GetFlag(FLAGS_batch),
       .repeat = absl::GetFlag(FLAGS_repeat)},
      [] { return absl::Now(); },
      [terminal](int64_t done, int64_t of) {
        if (terminal) absl::FPrintF(stderr, "\rrun %d of %d ", done, of);
        if (terminal && done == of) absl::FPrintF(stderr, "\n");
      });
  if (!report.ok()) return report.status();
  (*report)["load_seconds"] = load_seconds;
  (*report)["peak_rss_bytes"] = PeakRssBytes();
  (*report)["build"] = HEADRACE_VERSION;
  if (absl::GetFlag(FLAGS_json)) {
    std::cout << report->dump() << std::endl;
    return absl::OkStatus();
  }
  PrintRate("prefill", (*report)["prefill_tokens_per_second"]);
  PrintRate("decode", (*report)["decode_tokens_per_second"]);
  absl::PrintF("threads %d, %s, %s, %s; loaded in %.2f s, peak RSS %d MiB\n",
               (*report)["threads"].get<int>(),
               (*report)["isa"].get<std::string>(), numerics,
               (*report)["model"].get<std::string>(), load_seconds,
               PeakRssBytes() >> 20);
  return absl::OkStatus();
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  absl::FlagsUsageConfig config;
  config.contains_help_flags = [](absl::string_view file) {
    return absl::EndsWith(file, "engine/bench/main.cc");
  };
  absl::SetFlagsUsageConfig(config);
  absl::SetProgramUsageMessage(
      "Measures prefill and decode speed of the engine alone.\n"
      "  headrace-bench --model model.gguf --prompt 512 --generate 128");
  absl::ParseCommandLine(argc, argv);
  absl::InitializeLog();
  const absl::Status status = headrace::Run();
  if (!status.ok()) {
    std::cerr << "headrace-bench: " << status.message() << '\n';
    return 1;
  }
  return 0;
}
