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
