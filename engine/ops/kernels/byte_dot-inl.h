// Dot products of four bytes, as the loops of the fast mode take them, and how
// many vectors of them stay in registers.

// Per-target include guard: the name differs from one target to the next.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_BYTE_DOT_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_BYTE_DOT_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_BYTE_DOT_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_BYTE_DOT_INL_H_
#endif

#include <cstdint>

#include "engine/ops/kernels/packed_group-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using SignedBytes = hn::Repartition<int8_t, Ints>;
using SignedByteVector = hn::Vec<SignedBytes>;
using Shorts = hn::Repartition<int16_t, Ints>;

// The vectors of columns beside each other, of a tile of some rows.
constexpr int TileVectors(int rows) {
  if (kLanes >= 16) return 4;
  return rows == 1 ? 4 : 2;
}

// sum + the dot products of 4 unsigned and 4 signed bytes, exact.
HWY_INLINE IntVector DotBytes(IntVector sum, ByteVector unsigned_bytes,
                              SignedByteVector signed_bytes) {
#if HWY_TARGET <= HWY_AVX3_DL
  // The compiler reorders the intrinsic and then copies accumulators.
  asm("vpdpbusd %2, %1, %0"
      : "+v"(sum.raw)
      : "v"(unsigned_bytes.raw), "v"(signed_bytes.raw));
  return sum;
#else
  return hn::SumOfMulQuadAccumulate(Ints(), unsigned_bytes, signed_bytes, sum);
#endif
}

// sum + the dot products of 4 unsigned weights of so many bits and 4 signed
// activations, exact: by what the target has, ...
struct TargetDot {
  template <int kBits>
  static HWY_INLINE IntVector Add(IntVector sum, ByteVector weights,
                                  SignedByteVector activations) {
#if HWY_TARGET > HWY_AVX3_DL
    if constexpr (kBits < 8) {  // 2 * 127 * 127 fits in 16 bits
      const Shorts d16;
      const auto pairs = hn::SatWidenMulPairwiseAdd(d16, weights, activations);
      return hn::Add(sum,
                     hn::WidenMulPairwiseAdd(Ints(), pairs, hn::Set(d16, 1)));
    }
#endif
    return DotBytes(sum, weights, activations);
  }
};

#if HWY_TARGET == HWY_AVX2
// ... and by AVX-VNNI, which machines without AVX-512 may have beside AVX2:
// isa.h says whether this one has.
struct AvxVnniDot {
  template <int kBits>
  static HWY_INLINE IntVector Add(IntVector sum, ByteVector weights,
                                  SignedByteVector activations) {
    asm("%{vex%} vpdpbusd %2, %1, %0"
        : "+x"(sum.raw)
        : "x"(weights.raw), "x"(activations.raw));
    return sum;
  }
};
#endif

// Four bytes in every lane.
HWY_INLINE IntVector BroadcastFour(const void* bytes) {
  int32_t four;
  hwy::CopyBytes<4>(bytes, &four);
  return hn::Set(Ints(), four);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
