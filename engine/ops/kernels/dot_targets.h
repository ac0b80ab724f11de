// Which instruction sets kernels of int8 dot products are compiled for. Of
// those with 4-way dot products, Ice Lake's has all that we use; later ones run
// it. Comes before every header of Highway.
#ifndef HEADRACE_ENGINE_OPS_KERNELS_DOT_TARGETS_H_
#define HEADRACE_ENGINE_OPS_KERNELS_DOT_TARGETS_H_

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_AVX3_ZEN4 | HWY_AVX3_SPR)

#endif  // HEADRACE_ENGINE_OPS_KERNELS_DOT_TARGETS_H_
