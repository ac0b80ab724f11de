// Speed of Attention() as a fraction of what the machine can do: calls
// alternate with windows of their roof, so that a noisy neighbour slows both.
// Rates are those of the best tenth.
//
//   attention_benchmark --benchmark_filter='Prefill/rows:512/.*threads:1'
//
// Counters: rate, roof in the same unit, and percent. Prefill counts the useful
// multiply-adds of causal attention (Gop/s), decode the bytes of all keys and
// values (GB/s).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "absl/log/globals.h"
#include "benchmark/benchmark.h"
#include "engine/base/thread_team.h"
#include "engine/kv_cache/paged_kv_storage.h"
#include "engine/ops/activation.h"
#include "engine/ops/attention.h"
#include "engine/ops/kv_rows.h"
#include "engine/ops/rms_norm.h"
#include "tests/benchmarks/linear/roofs.h"

namespace headrace::benchmarks {
namespace {

constexpr int64_t kCacheBytes = int64_t{160} << 20;  // no cache holds them

struct AttentionShape {
  int64_t num_sequences;
  int64_t context;   // positions of each sequence
  int64_t num_rows;  // the last of them, which are computed
  int64_t num_attention_heads;
  int64_t num_key_value_heads;
  int64_t head_dim;
  int threads;
  KvCacheDtype dtype = KvCacheDtype::kF32;
};

struct Machine {
  explicit Machine(int threads) : team(threads), meter(team) {}
  ThreadTeam team;
  RoofMeter meter;
};

Machine& MachineOf(int threads) {
  static auto& machines = *new std::map<int, std::unique_ptr<Machine>>();
  std::unique_ptr<Machine>& machine = machines[threads];
  if (machine == nullptr) machine = std::make_unique<Machine>(threads);
  return *machine;
}

std::vector<float> SomeFloats(int64_t size) {
  std::vector<float> values(static_cast<size_t>(size));
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return values;
}

double BestTenth(std::vector<double> rates) {
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() * 9 / 10];
}

// Measures `call`, which does `work` operations or bytes.
void Report(benchmark::State& state, Machine& machine, Roof roof, double work,
            const std::function<void()>& call) {
  std::vector<double> roofs;
  std::vector<double> rates;
  call();  // touches all memory
  for (auto _ : state) {
    roofs.push_back(machine.meter.Measure(roof));
    const double start = Seconds(machine.team);
    call();
    const double seconds = Seconds(machine.team) - start;
    rates.push_back(work / seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["rate"] = BestTenth(rates) * 1e-9;
  state.counters["roof"] = BestTenth(roofs) * 1e-9;
  state.counters["percent"] = 100 * BestTenth(rates) / BestTenth(roofs);
}

// Layers of equal caches, all filled, used in turn.
class Caches {
 public:
  Caches(ThreadTeam& team, const AttentionShape& s)
      : blocks_((s.context + 15) / 16) {
    KvShape shape = {.num_layers = 1,
                     .num_key_value_heads = s.num_key_value_heads,
                     .head_dim = s.head_dim,
                     .block_size = 16,
                     .dtype = s.dtype};
    const int64_t num_blocks = s.num_sequences * blocks_;
    shape.num_layers = std::max<int64_t>(
        1, kCacheBytes / (PagedKvStorage::BytesPerBlock(shape) * num_blocks));
    num_layers_ = shape.num_layers;
    storage_ = std::make_unique<PagedKvStorage>(
        PagedKvStorage::Create(shape, num_blocks).value());
    table_.resize(static_cast<size_t>(num_blocks));
    std::iota(table_.begin(), table_.end(), 0);
    const int64_t width = s.num_key_value_heads * s.head_dim;
    const std::vector<float> rows = SomeFloats(s.context * width);
    for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
      for (int64_t sequence = 0; sequence < s.num_sequences; ++sequence) {
        StoreKeysAndValues(team, storage_->layout(),
                           {.k = rows.data(),
                            .v = rows.data(),
                            .k_row_stride = width,
                            .v_row_stride = width,
                            .num_rows = s.context,
                            .first_position = 0,
                            .block_table = TableOf(sequence)},
                           storage_->layer(layer));
      }
    }
  }

  std::span<const int32_t> TableOf(int64_t sequence) const {
    return std::span(table_).subspan(static_cast<size_t>(sequence * blocks_),
                                     static_cast<size_t>(blocks_));
  }

  const std::byte* Next() {
    layer_ = (layer_ + 1) % num_layers_;
    return storage_->layer(layer_);
  }
  const KvLayout& layout() const { return storage_->layout(); }

 private:
  int64_t blocks_;
  std::unique_ptr<PagedKvStorage> storage_;
  std::vector<int32_t> table_;
  int64_t num_layers_ = 0;
  int64_t layer_ = 0;
};

void BM_Attention(benchmark::State& state, const AttentionShape& s) {
  Machine& machine = MachineOf(s.threads);
  Caches caches(machine.team, s);
  std::vector<AttentionSequence> sequences;
  for (int64_t i = 0; i < s.num_sequences; ++i) {
    sequences.push_back({.first_row = i * s.num_rows,
                         .num_rows = s.num_rows,
                         .first_position = s.context - s.num_rows,
                         .block_table = caches.TableOf(i)});
  }
  const int64_t width = s.num_attention_heads * s.head_dim;
  const std::vector<float> q = SomeFloats(s.num_sequences * s.num_rows * width);
  std::vector<float> dst(q.size());
  AttentionInputs inputs = {
      .q = q.data(),
      .q_row_stride = width,
      .num_attention_heads = s.num_attention_heads,
      .scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim)),
      .sequences = sequences,
      .layout = caches.layout()};
  AttentionScratch scratch(s.threads, s.head_dim);
  const auto call = [&] {
    inputs.kv = caches.Next();
    Attention(machine.team, inputs, scratch, dst.data(), width);
  };
  const auto sequence_count = static_cast<double>(s.num_sequences);
  if (s.num_rows == 1) {
    const double bytes =
        sequence_count * static_cast<double>(LayoutOf(s.dtype).bytes) * 2 *
        static_cast<double>(s.context * s.num_key_value_heads * s.head_dim);
    Report(state, machine, Roof::kRead, bytes, call);
  } else {
    const int64_t pairs = s.num_rows * (2 * s.context - s.num_rows + 1) / 2;
    const double operations =
        4 * sequence_count * static_cast<double>(pairs * width);
    Report(state, machine, Roof::kFloat, operations, call);
  }
}

// Bytes per second through the elementwise operations of one MLP and norm.
void BM_Elementwise(benchmark::State& state, int64_t rows, int threads) {
  Machine& machine = MachineOf(threads);
  const int64_t width = 1536;
  const std::vector<float> src = SomeFloats(rows * 2 * width);
  const std::vector<float> weight = SomeFloats(width);
  std::vector<float> dst(static_cast<size_t>(rows * width));
  const auto call = [&] {
    Activate(machine.team, Activation::kSilu,
             {.gate = src.data(),
              .up = src.data() + width,
              .num_rows = rows,
              .width = width,
              .row_stride = 2 * width},
             dst.data());
    RmsNorm(
        machine.team,
        {.src = dst.data(), .num_rows = rows, .weight = weight, .eps = 1e-5},
        dst.data(), nullptr);
  };
  Report(state, machine, Roof::kRead,
         static_cast<double>(rows * width) * 5 * sizeof(float), call);
}

void RegisterOne(const std::string& kind, const AttentionShape& s,
                 int64_t iterations) {
  const std::string name = kind + "/rows:" + std::to_string(s.num_rows) +
                           "/context:" + std::to_string(s.context) +
                           "/sequences:" + std::to_string(s.num_sequences) +
                           "/heads:" + std::to_string(s.num_attention_heads) +
                           ":" + std::to_string(s.num_key_value_heads) +
                           "/head_dim:" + std::to_string(s.head_dim) +
                           "/threads:" + std::to_string(s.threads);
  benchmark::RegisterBenchmark(
      name.c_str(), [s](benchmark::State& state) { BM_Attention(state, s); })
      ->UseManualTime()
      ->Iterations(iterations)
      ->Unit(benchmark::kMicrosecond);
}

void Register(const std::string& kind, AttentionShape s, int64_t iterations) {
  for (const KvCacheDtypeLayout& layout : kKvCacheDtypes) {
    s.dtype = layout.dtype;
    for (const int threads : {1, 2}) {
      s.threads = threads;
      RegisterOne(kind + "/" + std::string(layout.name), s, iterations);
    }
  }
}

void RegisterAll() {
  for (const int64_t head_dim : {64, 128}) {
    Register("Prefill", {1, 128, 128, 9, 3, head_dim, 1}, 100);
    Register("Prefill", {1, 512, 512, 9, 3, head_dim, 1}, 50);
    Register("Prefill", {1, 4096, 512, 9, 3, head_dim, 1}, 10);
    Register("Decode", {1, 512, 1, 9, 3, head_dim, 1}, 200);
    Register("Decode", {1, 4096, 1, 9, 3, head_dim, 1}, 200);
    Register("Decode", {8, 4096, 1, 9, 3, head_dim, 1}, 50);
    Register("Decode", {1, 4096, 1, 8, 8, head_dim, 1}, 100);
  }
  Register("Prefill", {1, 512, 512, 8, 8, 64, 1}, 50);
  Register("Prefill", {1, 512, 512, 32, 8, 64, 1}, 20);
  for (const int64_t rows : {1, 512}) {
    for (const int threads : {1, 2}) {
      benchmark::RegisterBenchmark(("SiluAndNorm/rows:" + std::to_string(rows) +
                                    "/threads:" + std::to_string(threads))
                                       .c_str(),
                                   [=](benchmark::State& state) {
                                     BM_Elementwise(state, rows, threads);
                                   })
          ->UseManualTime()
          ->Iterations(200)
          ->Unit(benchmark::kMicrosecond);
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
