// Sums and maxima over the lanes of many vectors at once.

// Per-target include guard, in Highway's manner.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_TRANSPOSED_REDUCE_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_TRANSPOSED_REDUCE_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_TRANSPOSED_REDUCE_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_TRANSPOSED_REDUCE_INL_H_
#endif

#include <cstdint>

#include "engine/ops/kernels/unroll-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Of four vectors of 4-byte lanes: in each block of four lanes, what `op` makes
// of that block of each vector, in their order.
template <class D, class Op>
HWY_INLINE hn::Vec<D> ReduceBlocks(D d, const hn::Vec<D> (&v)[4],
                                   const Op& op) {
  const hn::Repartition<int64_t, D> d64;
  const auto pairs = [&](hn::Vec<D> a, hn::Vec<D> b) HWY_ATTR {
    return hn::BitCast(
        d64, op(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto low = pairs(v[0], v[1]);
  const auto high = pairs(v[2], v[3]);
  return op(hn::BitCast(d, hn::InterleaveLower(d64, low, high)),
            hn::BitCast(d, hn::InterleaveUpper(d64, low, high)));
}

// Of as many results of ReduceBlocks() as a vector has blocks: what `op` makes
// of the blocks of each, in their order.
template <class D, class Op, int kBlocks>
HWY_INLINE hn::Vec<D> ReduceAcrossBlocks(D d, const hn::Vec<D> (&v)[kBlocks],
                                         const Op& op) {
  if constexpr (kBlocks == 1) {
    return v[0];
  } else {
    const auto halves = [&](hn::Vec<D> a, hn::Vec<D> b) HWY_ATTR {
      return op(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
    };
    if constexpr (kBlocks == 2) {
      return halves(v[0], v[1]);
    } else {
      const auto neighbours = [&](hn::Vec<D> a) HWY_ATTR {
        return op(a, hn::SwapAdjacentBlocks(a));
      };
      return hn::OddEvenBlocks(neighbours(halves(v[1], v[3])),
                               neighbours(halves(v[0], v[2])));
    }
  }
}

// What `op`, which does not mind an order, makes of each of as many vectors as
// a vector has lanes, one after the other from `rows` on.
template <class D, class Op>
HWY_INLINE hn::Vec<D> ReduceEach(D d, const hn::TFromD<D>* rows, const Op& op) {
  constexpr int kWidth = static_cast<int>(hn::MaxLanes(D()));
  hn::Vec<D> quads[kWidth / 4];
  Unroll<kWidth / 4>([&](auto q) HEADRACE_INLINE_LAMBDA {
    hn::Vec<D> v[4];
    Unroll<4>([&](auto i) HEADRACE_INLINE_LAMBDA {
      v[i] = hn::Load(d, rows + (4 * q + i) * kWidth);
    });
    quads[q] = ReduceBlocks(d, v, op);
  });
  return ReduceAcrossBlocks(d, quads, op);
}

struct Maximum {
  template <class V>
  HWY_INLINE HWY_ATTR V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
