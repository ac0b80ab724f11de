#include "tests/benchmarks/linear/roofs.h"

#include <time.h>

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/benchmarks/linear/roofs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::benchmarks {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using kernels::HWY_NAMESPACE::Unroll;

// Independent chains, enough to hide the latency of one.
constexpr int kChains = 12;

// The compiler must believe that `v` is needed and may change.
template <class V>
HWY_INLINE void Keep(V& v) {
#if HWY_TARGET <= HWY_AVX3
  asm volatile("" : "+v"(v.raw));
#else
  asm volatile("" : "+x"(v.raw));
#endif
}

int64_t MultiplyAddLoop(int64_t rounds) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sums[kChains];
  auto a = hn::Set(d, 0.999f);
  auto b = hn::Set(d, 0.5f);
  Keep(a);
  Keep(b);
  Unroll<kChains>([&](auto i)
                      HEADRACE_INLINE_LAMBDA { sums[i] = hn::Zero(d); });
  for (int64_t round = 0; round < rounds; ++round) {
    Unroll<kChains>([&](auto i) HEADRACE_INLINE_LAMBDA {
      sums[i] = hn::MulAdd(a, b, sums[i]);
      Keep(sums[i]);
    });
  }
  return rounds * kChains * 2 * static_cast<int64_t>(hn::Lanes(d));
}

int64_t DotLoop(int64_t rounds) {
  const hn::ScalableTag<int32_t> d;
  const hn::Repartition<uint8_t, decltype(d)> du8;
  const hn::Repartition<int8_t, decltype(d)> di8;
  hn::Vec<decltype(d)> sums[kChains];
  auto a = hn::Set(du8, 3);
  auto b = hn::Set(di8, -5);
  Keep(a);
  Keep(b);
  Unroll<kChains>([&](auto i)
                      HEADRACE_INLINE_LAMBDA { sums[i] = hn::Zero(d); });
  for (int64_t round = 0; round < rounds; ++round) {
    Unroll<kChains>([&](auto i) HEADRACE_INLINE_LAMBDA {
      sums[i] = hn::SumOfMulQuadAccumulate(d, a, b, sums[i]);
      Keep(sums[i]);
    });
  }
  return rounds * kChains * 8 * static_cast<int64_t>(hn::Lanes(d));
}

void ReadLoop(const std::byte* memory, int64_t bytes) {
  const hn::ScalableTag<uint8_t> d;
  const auto n = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  const auto* p = reinterpret_cast<const uint8_t*>(memory);
  for (int64_t i = 0; i < bytes; i += 4 * n) {
    for (int64_t j = 0; j < 4; ++j) {
      sum = hn::Xor(sum, hn::LoadU(d, p + i + j * n));
    }
  }
  Keep(sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::benchmarks
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::benchmarks {

HWY_EXPORT(MultiplyAddLoop);
HWY_EXPORT(DotLoop);
HWY_EXPORT(ReadLoop);

namespace {

constexpr size_t kMemoryBytes = size_t{512} << 20;
constexpr size_t kReadBytes = size_t{8} << 20;  // of one window, each thread
constexpr int64_t kRounds = 100000;

}  // namespace

double Seconds(const ThreadTeam& team) {
  timespec now;
  clock_gettime(
      team.num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
      &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

RoofMeter::RoofMeter(ThreadTeam& team)
    : team_(team), memory_(kMemoryBytes + 8192) {
  // Memory that was never written is one page of zeros, read from the cache.
  std::memset(memory_.data(), 1, memory_.size());
}

double RoofMeter::Measure(Roof roof) {
  const int64_t threads = team_.num_threads();
  if (position_ + kReadBytes * static_cast<size_t>(threads) > kMemoryBytes) {
    position_ = 0;
  }
  const std::byte* memory = memory_.data() + position_;
  int64_t work_per_thread = 0;
  const double start = Seconds(team_);
  team_.ParallelFor(threads, [&](int64_t task, int /*thread_index*/) {
    int64_t work = 0;
    switch (roof) {
      case Roof::kRead:
        HWY_DYNAMIC_DISPATCH(ReadLoop)
        (memory + static_cast<size_t>(task) * kReadBytes, kReadBytes);
        work = kReadBytes;
        break;
      case Roof::kFloat:
        work = HWY_DYNAMIC_DISPATCH(MultiplyAddLoop)(kRounds);
        break;
      case Roof::kInt8:
        work = HWY_DYNAMIC_DISPATCH(DotLoop)(kRounds);
        break;
    }
    if (task == 0) work_per_thread = work;
  });
  const double seconds = Seconds(team_) - start;
  if (roof == Roof::kRead) {
    position_ += kReadBytes * static_cast<size_t>(threads);
  }
  return static_cast<double>(work_per_thread * threads) / seconds;
}

}  // namespace headrace::benchmarks
#endif  // HWY_ONCE
