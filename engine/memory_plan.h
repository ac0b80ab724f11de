// How much memory the KV cache gets: what is asked for, or what the limits
// leave; and a refusal with the numbers when the model cannot fit.
#ifndef HEADRACE_ENGINE_MEMORY_PLAN_H_
#define HEADRACE_ENGINE_MEMORY_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace headrace {

struct MemoryNeeds {
  int64_t limit_bytes = 0;    // what the process may hold
  int64_t weight_bytes = 0;   // packed weights and the mapped file's hot part
  int64_t working_bytes = 0;  // buffers of a step, code, libraries
  int64_t kv_block_bytes = 0;
  int64_t kv_block_size = 0;  // rows
  int64_t context_length = 0;
  int64_t requested_kv_cache_bytes = 0;  // 0: decide
};

// Blocks of the KV cache. One sequence of context_length always fits.
//
// Errors: RESOURCE_EXHAUSTED naming limit, need and the flags that change
// them.
absl::StatusOr<int64_t> PlanKvBlocks(const MemoryNeeds& needs);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_MEMORY_PLAN_H_
