// See quantize_rows.h.
#include "engine/ops/kernels/quantize_rows.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/ops/kernels/quantize_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// Comes after foreach_target.h.
#include "engine/ops/kernels/rounding-inl.h"
#include "engine/ops/kernels/transposed_reduce-inl.h"
#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
using Ints = hn::RebindToSigned<Floats>;
using FloatVector = hn::Vec<Floats>;
using IntVector = hn::Vec<Ints>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
constexpr int kVectors = kGroupSize / kLanes;
constexpr int kBlocks = kLanes / 4;

HWY_INLINE FloatVector LoadPart(const float* group, int v) {
  return hn::LoadU(Floats(), group + v * kLanes);
}

// The sum of 16 signed bytes.
HWY_INLINE int32_t SumOfHalf(const uint8_t* bytes) {
  const hn::Full128<uint8_t> d;
  const hn::Repartition<uint64_t, hn::Full128<uint8_t>> d64;
  // Sums of eight are those of unsigned bytes: each is 128 too much.
  const auto sums =
      hn::SumsOf8(hn::Xor(hn::LoadU(d, bytes), hn::Set(d, uint8_t{128})));
  return static_cast<int32_t>(hn::ReduceSum(d64, sums)) - 16 * 128;
}

void QuantizeGroup(const float* src, QuantizedGroup& dst) {
  const Floats d;
  const Ints di;
  FloatVector x[kVectors];
  auto most = hn::Zero(di);
  Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
    x[v] = LoadPart(src, v);
    most = hn::Max(most, MagnitudeBits(d, x[v]));
  });
  const int32_t absmax_bits = hn::ReduceMax(di, most);
  const float absmax = std::bit_cast<float>(absmax_bits);
  const bool tiny = absmax_bits < kSmallestBits;
  dst.scale = tiny ? 0.0f : absmax / 127.0f;
  if (tiny || absmax_bits >= kInfinityBits) {
    dst = {.scale = dst.scale};
    dst.scaled_sum = dst.scale * 0.0f;
    return;
  }

  const auto factor = hn::Set(d, 127.0f / absmax);
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<uint8_t, Floats> du8;
  auto* values = reinterpret_cast<uint8_t*>(dst.values);
  Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
    // The integer is in the low bits.
    hn::StoreU(hn::TruncateTo(du8, hn::BitCast(du, Rounded(d, x[v], factor))),
               du8, values + v * kLanes);
  });
  const int32_t half_sum = SumOfHalf(values);
  const int32_t sum = half_sum + SumOfHalf(values + kGroupSize / 2);
  dst.scaled_sum = dst.scale * static_cast<float>(sum);
  dst.negative_sum = -sum;
  dst.negative_half_sum = -half_sum;
}

// A batch: a group per lane.
struct Batch {
  const float* src;  // [kLanes, 32]
  QuantizedGroup* dst[kLanes];
};

struct Sum {
  HWY_INLINE HWY_ATTR IntVector operator()(IntVector a, IntVector b) const {
    return hn::Add(a, b);
  }
};

// The bits of the greatest magnitude of each group.
HWY_INLINE IntVector MaximaOf(const float* src) {
  const Ints di;
  IntVector quads[kBlocks];
  Unroll<kBlocks>([&](auto q) HEADRACE_INLINE_LAMBDA {
    IntVector most[4];
    Unroll<4>([&](auto i) HEADRACE_INLINE_LAMBDA {
      const float* group = src + (4 * q + i) * kGroupSize;
      most[i] = MagnitudeBits(Floats(), LoadPart(group, 0));
      Unroll<kVectors - 1>([&](auto v) HEADRACE_INLINE_LAMBDA {
        most[i] =
            hn::Max(most[i], MagnitudeBits(Floats(), LoadPart(group, v + 1)));
      });
    });
    quads[q] = ReduceBlocks(di, most, Maximum());
  });
  return ReduceAcrossBlocks(di, quads, Maximum());
}

struct Sums {
  IntVector half;  // of the first 16 values of each group
  IntVector all;
};

// Stores the integers of each group; `factors`: [kLanes].
HWY_INLINE Sums StoreValues(const Batch& batch, const float* factors) {
  const Ints di;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<uint8_t, Floats> du8;
  IntVector half_quads[kBlocks];
  IntVector quads[kBlocks];
  Unroll<kBlocks>([&](auto q) HEADRACE_INLINE_LAMBDA {
    IntVector halves[4];
    IntVector sums[4];
    Unroll<4>([&](auto i) HEADRACE_INLINE_LAMBDA {
      constexpr int kGroup = 4 * q + i;
      const float* group = batch.src + kGroup * kGroupSize;
      auto* values = reinterpret_cast<uint8_t*>(batch.dst[kGroup]->values);
      const auto factor = hn::Set(Floats(), factors[kGroup]);
      sums[i] = hn::Zero(di);
      Unroll<kVectors>([&](auto v) HEADRACE_INLINE_LAMBDA {
        // The integer is in the low bits.
        const auto bits =
            hn::BitCast(di, Rounded(Floats(), LoadPart(group, v), factor));
        hn::StoreU(hn::TruncateTo(du8, hn::BitCast(du, bits)), du8,
                   values + v * kLanes);
        sums[i] = hn::Add(sums[i], bits);
        if constexpr (v == kVectors / 2 - 1) halves[i] = sums[i];
      });
    });
    half_quads[q] = ReduceBlocks(di, halves, Sum());
    quads[q] = ReduceBlocks(di, sums, Sum());
  });
  // The other bits, of which each integer added some, drop out; sums wrap.
  constexpr auto kOfHalf = static_cast<int32_t>(uint32_t{kRounderBits} * 16);
  constexpr auto kOfAll = static_cast<int32_t>(uint32_t{kRounderBits} * 32);
  return {.half = hn::Sub(ReduceAcrossBlocks(di, half_quads, Sum()),
                          hn::Set(di, kOfHalf)),
          .all = hn::Sub(ReduceAcrossBlocks(di, quads, Sum()),
                         hn::Set(di, kOfAll))};
}

// As QuantizeGroup(), for many at once.
HWY_INLINE void QuantizeBatch(const Batch& batch) {
  const Floats d;
  const Ints di;
  const IntVector maxima = MaximaOf(batch.src);
  const auto ordinary = hn::And(hn::Ge(maxima, hn::Set(di, kSmallestBits)),
                                hn::Lt(maxima, hn::Set(di, kInfinityBits)));
  if (!hn::AllTrue(di, ordinary)) {
    for (int i = 0; i < kLanes; ++i) {
      QuantizeGroup(batch.src + i * kGroupSize, *batch.dst[i]);
    }
    return;
  }
  const auto absmax = hn::BitCast(d, maxima);
  HWY_ALIGN float factors[kLanes];
  hn::Store(hn::Div(hn::Set(d, 127.0f), absmax), d, factors);
  const Sums sums = StoreValues(batch, factors);
  const auto scale = hn::Div(absmax, hn::Set(d, 127.0f));
  HWY_ALIGN float tails[kLanes * 4];  // scale, scaled_sum, negative sums
  hn::StoreInterleaved4(scale, hn::Mul(scale, hn::ConvertTo(d, sums.all)),
                        hn::BitCast(d, hn::Neg(sums.all)),
                        hn::BitCast(d, hn::Neg(sums.half)), d, tails);
  for (int i = 0; i < kLanes; ++i) {
    hwy::CopyBytes<16>(tails + 4 * i, &batch.dst[i]->scale);
  }
}

void QuantizeRowsOf(const float* src, int64_t num_rows, int64_t groups_per_row,
                    QuantizedGroup* dst, int64_t dst_stride) {
  const int64_t num_groups = num_rows * groups_per_row;
  int64_t column = 0;
  const auto next = [&]() {
    QuantizedGroup* group = dst + column;
    if (++column == groups_per_row) {
      column = 0;
      dst += dst_stride;
    }
    return group;
  };
  int64_t g = 0;
  for (; g + kLanes <= num_groups; g += kLanes) {
    Batch batch = {.src = src + g * kGroupSize, .dst = {}};
    for (QuantizedGroup*& group : batch.dst) group = next();
    QuantizeBatch(batch);
  }
  for (; g < num_groups; ++g) QuantizeGroup(src + g * kGroupSize, *next());
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(QuantizeRowsOf);

void QuantizeRows(const float* src, int64_t num_rows, int64_t groups_per_row,
                  QuantizedGroup* dst, int64_t dst_stride) {
  HWY_DYNAMIC_DISPATCH(QuantizeRowsOf)
  (src, num_rows, groups_per_row, dst, dst_stride);
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
