#include "server/batching/request.h"

#include "absl/strings/str_cat.h"

namespace headrace {

absl::Status CheckFitsKvCache(const Request& request, int64_t kv_cache_rows) {
  const int64_t rows = request.sequence.max_rows;
  if (rows <= kv_cache_rows) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("prompt and max_tokens need ", rows,
                   " positions of the KV cache; it has ", kv_cache_rows));
}

}  // namespace headrace
