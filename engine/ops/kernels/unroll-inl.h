// Loops of a constant length that are unrolled whatever the compiler thinks of
// it, so that arrays of vectors indexed by their counter live in registers.

// Per-target include guard: the name differs from one target to the next.
#if defined(HEADRACE_ENGINE_OPS_KERNELS_UNROLL_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_ENGINE_OPS_KERNELS_UNROLL_INL_H_
#undef HEADRACE_ENGINE_OPS_KERNELS_UNROLL_INL_H_
#else
#define HEADRACE_ENGINE_OPS_KERNELS_UNROLL_INL_H_
#endif

#include <type_traits>
#include <utility>

#include "hwy/highway.h"

// Before the body of a lambda given to Unroll().
#define HEADRACE_INLINE_LAMBDA HWY_ATTR __attribute__((always_inline))

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

template <class Body, int... kIndices>
HWY_INLINE void UnrollSequence(const Body& body,
                               std::integer_sequence<int, kIndices...>) {
  (body(std::integral_constant<int, kIndices>{}), ...);
}

// body(0), body(1), …, body(kCount - 1), each with its index as a constant.
template <int kCount, class Body>
HWY_INLINE void Unroll(const Body& body) {
  UnrollSequence(body, std::make_integer_sequence<int, kCount>{});
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
