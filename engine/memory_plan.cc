#include "engine/memory_plan.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace headrace {
namespace {

// Without a size asked for: this share of what the limits leave, and no more
// than so many full contexts. Pages are touched only when used.
constexpr double kShareOfFreeMemory = 0.8;
constexpr int64_t kFullContexts = 16;

std::string MiB(int64_t bytes) {
  return absl::StrFormat("%.0f MiB",
                         static_cast<double>(bytes) / (1024.0 * 1024.0));
}

}  // namespace

absl::StatusOr<int64_t> PlanKvBlocks(const MemoryNeeds& needs) {
  const int64_t context_blocks =
      (needs.context_length + needs.kv_block_size - 1) / needs.kv_block_size;
  const int64_t least_bytes = context_blocks * needs.kv_block_bytes;
  const int64_t free_bytes =
      needs.limit_bytes - needs.weight_bytes - needs.working_bytes;
  const bool asked = needs.requested_kv_cache_bytes > 0;
  const int64_t kv_bytes =
      asked ? needs.requested_kv_cache_bytes
            : std::min(static_cast<int64_t>(kShareOfFreeMemory *
                                            static_cast<double>(free_bytes)),
                       kFullContexts * least_bytes);
  if (kv_bytes > free_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "kv_cache_bytes = ", MiB(kv_bytes),
        " does not fit: the memory limit is ", MiB(needs.limit_bytes),
        ", the weights take ", MiB(needs.weight_bytes), " and working memory ",
        MiB(needs.working_bytes), ", which leaves ",
        MiB(std::max<int64_t>(free_bytes, 0))));
  }
  if (kv_bytes < least_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the KV cache for one context of ", needs.context_length,
        " tokens takes ", MiB(least_bytes), ", but it has ",
        MiB(std::max<int64_t>(kv_bytes, 0)), " (memory limit ",
        MiB(needs.limit_bytes), ", weights ", MiB(needs.weight_bytes),
        ", working memory ", MiB(needs.working_bytes),
        "); lower context_length or raise ",
        asked ? "kv_cache_bytes" : "the memory limit"));
  }
  return kv_bytes / needs.kv_block_bytes;
}

}  // namespace headrace
