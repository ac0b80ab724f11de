// Speed of Linear() as a fraction of what the machine can do: short windows of
// the kernel alternate with windows of its roof, so that a noisy neighbour
// slows both. Rates are those of the best tenth of the windows.
//
//   linear_benchmark --benchmark_filter='Fast/Q4_1/.*rows:1/'
//
// Counters: rate (GB/s of packed weights up to 8 rows, then Gop/s), roof in the
// same unit, and percent.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "absl/log/globals.h"
#include "benchmark/benchmark.h"
#include "engine/ops/linear.h"
#include "engine/ops/ops_context.h"
#include "tests/benchmarks/linear/roofs.h"

namespace headrace::benchmarks {
namespace {

constexpr int64_t kWeightBytes = int64_t{160} << 20;  // no cache holds them
constexpr int64_t kMaxMemoryBoundRows = 8;
constexpr double kWindowSeconds = 0.7e-3;

struct LinearCase {
  DType dtype;
  Numerics numerics;
  int64_t in;
  int64_t out;
  int64_t rows;
  int threads;
};

// Any bytes that are finite as F16 and F32.
std::vector<std::byte> SomeBytes(int64_t size) {
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24 & 0x3B);
  }
  return bytes;
}

struct Machine {
  explicit Machine(int threads)
      : context(*OpsContext::Create(threads)), meter(context->team()) {}
  std::unique_ptr<OpsContext> context;
  RoofMeter meter;
};

Machine& MachineOf(int threads) {
  static auto& machines = *new std::map<int, std::unique_ptr<Machine>>();
  std::unique_ptr<Machine>& machine = machines[threads];
  if (machine == nullptr) machine = std::make_unique<Machine>(threads);
  return *machine;
}

// Copies of the same weights, used in turn.
std::vector<LinearWeights> PackCopies(OpsContext& context,
                                      const LinearCase& c) {
  TensorView view = {.dtype = c.dtype, .shape = {c.out, c.in}};
  const std::vector<std::byte> bytes = SomeBytes(c.out * view.row_bytes());
  view.data = bytes.data();
  std::vector<LinearWeights> copies;
  const auto size = static_cast<int64_t>(bytes.size());
  const int64_t count =
      c.rows <= kMaxMemoryBoundRows ? kWeightBytes / size + 1 : 2;
  for (int64_t i = 0; i < count; ++i) {
    auto packed = LinearWeights::Pack(context, {&view, 1}, c.numerics);
    CHECK_OK(packed.status());
    copies.push_back(*std::move(packed));
  }
  return copies;
}

double BestTenth(std::vector<double>& rates) {
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() * 9 / 10];
}

void BM_Linear(benchmark::State& state, const LinearCase& c) {
  Machine& machine = MachineOf(c.threads);
  const ThreadTeam& team = machine.context->team();
  const std::vector<LinearWeights> copies = PackCopies(*machine.context, c);
  std::vector<float> src(static_cast<size_t>(c.rows * c.in));
  for (size_t i = 0; i < src.size(); ++i) {
    src[i] = static_cast<float>(i * 37 % 101) - 50.0f;
  }
  std::vector<float> dst(static_cast<size_t>(c.rows * c.out));
  const bool memory_bound = c.rows <= kMaxMemoryBoundRows;
  const bool fast =
      c.numerics == Numerics::kFast && LayoutOf(c.dtype).elements > 1;
  const Roof roof = memory_bound ? Roof::kRead
                    : fast       ? Roof::kInt8
                                 : Roof::kFloat;
  const double work = memory_bound
                          ? static_cast<double>(copies[0].packed_bytes())
                          : 2.0 * static_cast<double>(c.rows * c.in * c.out);
  std::vector<double> roofs;
  std::vector<double> rates;
  size_t next = 0;
  for (auto _ : state) {
    roofs.push_back(machine.meter.Measure(roof));
    const double start = Seconds(team);
    double seconds = 0;
    int64_t calls = 0;
    do {
      Linear(*machine.context, copies[next], src.data(), c.rows,
             {.rows = dst.data(), .stride = c.out});
      next = (next + 1) % copies.size();
      ++calls;
      seconds = Seconds(team) - start;
    } while (seconds < kWindowSeconds);
    rates.push_back(work * static_cast<double>(calls) / seconds);
    state.SetIterationTime(seconds / static_cast<double>(calls));
  }
  const double rate = BestTenth(rates);
  const double best_roof = BestTenth(roofs);
  state.counters["rate"] = rate * 1e-9;
  state.counters["roof"] = best_roof * 1e-9;
  state.counters["percent"] = 100 * rate / best_roof;
}

void RegisterAll() {
  struct Kind {
    DType dtype;
    Numerics numerics;
  };
  for (const Kind kind : {Kind{DType::kQ4_1, Numerics::kFast},
                          Kind{DType::kQ4_0, Numerics::kFast},
                          Kind{DType::kQ8_0, Numerics::kFast},
                          Kind{DType::kQ8_C, Numerics::kFast},
                          Kind{DType::kQ5_0, Numerics::kFast},
                          Kind{DType::kQ5_1, Numerics::kFast},
                          Kind{DType::kQ4_K, Numerics::kFast},
                          Kind{DType::kQ5_K, Numerics::kFast},
                          Kind{DType::kQ6_K, Numerics::kFast},
                          Kind{DType::kQ4_1, Numerics::kExact},
                          Kind{DType::kQ8_0, Numerics::kExact},
                          Kind{DType::kQ8_C, Numerics::kExact},
                          Kind{DType::kQ4_K, Numerics::kExact},
                          Kind{DType::kQ6_K, Numerics::kExact},
                          Kind{DType::kBF16, Numerics::kExact},
                          Kind{DType::kF32, Numerics::kExact}}) {
    for (const auto& [in, out] :
         {std::pair{576, 3072}, std::pair{1536, 576}, std::pair{2048, 8192}}) {
      if (in % LayoutOf(kind.dtype).elements != 0) continue;
      for (const int64_t rows : {1, 2, 4, 8, 16, 64, 512}) {
        for (const int threads : {1, 2}) {
          const LinearCase c = {kind.dtype, kind.numerics, in,
                                out,        rows,          threads};
          const std::string name =
              std::string(kind.numerics == Numerics::kFast ? "Fast/"
                                                           : "Exact/") +
              std::string(LayoutOf(kind.dtype).name) +
              "/in:" + std::to_string(in) + "/out:" + std::to_string(out) +
              "/rows:" + std::to_string(rows) +
              "/threads:" + std::to_string(threads);
          benchmark::RegisterBenchmark(
              name.c_str(),
              [c](benchmark::State& state) { BM_Linear(state, c); })
              ->UseManualTime()
              ->Iterations(200)
              ->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace
}  // namespace headrace::benchmarks

int main(int argc, char** argv) {
  absl::SetMinLogLevel(absl::LogSeverityAtLeast::kWarning);
  benchmark::Initialize(&argc, argv);
  headrace::benchmarks::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
