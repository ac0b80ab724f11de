// What this machine can do at the most, right now: measured beside the kernels,
// in the same windows of time and on the same threads.
#ifndef HEADRACE_TESTS_BENCHMARKS_LINEAR_ROOFS_H_
#define HEADRACE_TESTS_BENCHMARKS_LINEAR_ROOFS_H_

#include <cstddef>
#include <cstdint>

#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_team.h"

namespace headrace::benchmarks {

// Seconds of the calling thread: with one compute thread its own CPU time, so
// that being preempted does not count; with more, the clock's.
double Seconds(const ThreadTeam& team);

enum class Roof : uint8_t {
  kRead,   // bytes streamed from memory
  kFloat,  // float32 multiply-adds, counted as 2 operations
  kInt8,   // 4-way int8 dot products, counted as 8 operations
};

// Runs one window of a roof on the whole team.
class RoofMeter {
 public:
  explicit RoofMeter(ThreadTeam& team);

  // Bytes or operations per second of one window of about half a millisecond.
  double Measure(Roof roof);

 private:
  ThreadTeam& team_;
  AlignedBuffer<std::byte> memory_;  // larger than any cache
  size_t position_ = 0;
};

}  // namespace headrace::benchmarks

#endif  // HEADRACE_TESTS_BENCHMARKS_LINEAR_ROOFS_H_
