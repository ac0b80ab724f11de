// What the vector store tells about itself, for metrics.
#ifndef HEADRACE_SERVER_VECTORS_STORE_STATS_H_
#define HEADRACE_SERVER_VECTORS_STORE_STATS_H_

#include <cstdint>

namespace headrace {

struct StoreStats {
  // Now.
  int64_t vectors = 0;
  int64_t vector_bytes = 0;
  int64_t kept_rows = 0;  // handles
  int64_t kept_rows_bytes = 0;
  // Those, what is reserved for rows that will be kept, and what running
  // requests still use.
  int64_t bytes_used = 0;
  int64_t bytes_limit = 0;
  // Since the start.
  int64_t refusals = 0;  // for want of room
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_VECTORS_STORE_STATS_H_
