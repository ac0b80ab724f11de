// Gathers the rows that one request keeps on the server, and stores them when
// it has gone well.
#ifndef HEADRACE_SERVER_VECTORS_ROW_KEEPER_H_
#define HEADRACE_SERVER_VECTORS_ROW_KEEPER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "engine/capture/capture_plan.h"
#include "server/vectors/byte_quota.h"
#include "server/vectors/content_hash.h"
#include "server/vectors/stored_rows.h"
#include "server/vectors/vector_store.h"

namespace headrace {

struct KeptReceipt {
  std::string sha256;
  absl::Duration time_to_live;  // left
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Bytes of the quota that a kept row takes.
constexpr int64_t KeptRowBytes(int64_t width) {
  return width * static_cast<int64_t>(sizeof(float)) +
         static_cast<int64_t>(sizeof(int64_t));
}

// Owned by the batch loop, once its request is submitted.
class RowKeeper {
 public:
  // `bytes` hold all that will be added. `store` outlives this.
  RowKeeper(VectorStore* store, Reservation bytes, absl::Duration time_to_live)
      : store_(store), bytes_(std::move(bytes)), time_to_live_(time_to_live) {}

  // Rows of one hook and layer come in order of position.
  void Add(const CapturedRow& row);
  // Stores them under the SHA-256 of "headrace rows 1\n" and, for each hook and
  // layer ascending, these little-endian numbers: the hook's in headrace.v1,
  // the layer (-1: none) and the width, of 8 bytes each; then the SHA-256,
  // in hexadecimal digits, of its rows, each of them its position, of 8 bytes,
  // and its float32 values.
  KeptReceipt Finish();

 private:
  struct Block {
    RowBlock rows;
    ContentHash hash;
  };

  VectorStore* const store_;
  Reservation bytes_;
  const absl::Duration time_to_live_;
  std::map<std::pair<HookPoint, int32_t>, Block> blocks_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_VECTORS_ROW_KEEPER_H_
