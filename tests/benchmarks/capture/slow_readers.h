// Many clients that read rows far slower than the server could send them.
#ifndef HEADRACE_TESTS_BENCHMARKS_CAPTURE_SLOW_READERS_H_
#define HEADRACE_TESTS_BENCHMARKS_CAPTURE_SLOW_READERS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "headrace/v1/generation.pb.h"

namespace headrace {

struct SlowReaders {
  int64_t count = 200;
  int64_t bytes_per_second = 1024;  // of each
  absl::Duration duration = absl::Minutes(1);
};

// Each has a connection of its own and takes a message when it is due at its
// rate. Prints a line when all of them have their first one. Returns the bytes
// of rows that were read; dies when a stream ends early.
int64_t ReadSlowly(const std::string& address,
                   const v1::GenerateRequest& request,
                   const SlowReaders& readers);

}  // namespace headrace

#endif  // HEADRACE_TESTS_BENCHMARKS_CAPTURE_SLOW_READERS_H_
