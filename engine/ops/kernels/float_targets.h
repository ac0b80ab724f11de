// Which instruction sets kernels of float32 alone are compiled for: those that
// differ in float32. A machine with a later AVX-512 runs the plain one. Comes
// before every header of Highway.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_FLOAT_TARGETS_H_
#define HEADRACE_ENGINE_OPS_KERNELS_FLOAT_TARGETS_H_

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_AVX3_DL | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)

#endif  // HEADRACE_ENGINE_OPS_KERNELS_FLOAT_TARGETS_H_
