// Random numbers by counter: a draw is a function of (seed, choice, step) and
// of nothing else. No state, so neither batching nor a restart changes it.
#ifndef HEADRACE_ENGINE_SAMPLING_RANDOM_H_
#define HEADRACE_ENGINE_SAMPLING_RANDOM_H_

#include <array>
#include <cstdint>

namespace headrace {

// Philox4x32 with 10 rounds.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3",
// section 3.3.
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

// Uniform in [0, 1), 53 bits. All 64 bits of `seed` and `step` and all 32 of
// `choice` count; streams of different seeds or choices are independent.
double UniformDraw(uint64_t seed, int32_t choice, int64_t step);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_SAMPLING_RANDOM_H_
