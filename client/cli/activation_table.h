// Rows of activations as they arrive, put in order: one float32 array per hook
// and layer.
#ifndef HEADRACE_CLIENT_CLI_ACTIVATION_TABLE_H_
#define HEADRACE_CLIENT_CLI_ACTIVATION_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "headrace/v1/activations.pb.h"
#include "headrace/v1/models.pb.h"

namespace headrace::cli {

struct ActivationArray {
  int64_t width = 0;
  std::vector<int64_t> positions;  // one per row
  std::vector<float> values;       // [rows, width]

  const float* row(int64_t i) const { return values.data() + i * width; }
  int64_t rows() const { return static_cast<int64_t>(positions.size()); }
};

// Rows of one hook and layer that have a value for each key, by head.
struct AttentionArray {
  struct Row {
    int64_t position = 0;
    int64_t first_key = 0;  // position, when `keys` is empty
    std::vector<float> values;
    std::vector<int64_t> keys;  // with top_keys: the position of each value's
  };
  std::map<int64_t, std::vector<Row>> heads;

  // [heads, rows, keys]: by position of the key, or by rank with top_keys;
  // `empty` where there is none.
  int64_t keys() const;
  std::vector<float> Dense(float empty) const;
  // With top_keys, [heads, rows, keys]: where each value's key is; -1: none.
  std::vector<int64_t> KeyPositions() const;
};

// Thread-compatible.
class ActivationTable {
 public:
  using Key = std::pair<v1::HookPoint, int64_t>;  // layer -1: none

  // Errors: DATA_LOSS when the chunk's checksum, size or number is wrong.
  absl::Status Add(const v1::ActivationChunk& chunk);

  const std::map<Key, ActivationArray>& arrays() const { return arrays_; }
  const std::map<Key, AttentionArray>& attention() const { return attention_; }
  // Null when no such row came.
  const ActivationArray* Find(v1::HookPoint hook, int64_t layer) const;

  // resid_pre + attn_out == resid_mid and resid_mid + mlp_out == resid_post,
  // exactly, for every row whose three parts are here. Counts the rows that
  // were checked. Errors: DATA_LOSS naming the first row that fails.
  absl::Status Verify(int64_t& checked) const;

 private:
  // before + write == after in every row of one layer, if all three are here.
  absl::Status VerifySum(v1::HookPoint before, v1::HookPoint write,
                         v1::HookPoint after, int64_t layer,
                         int64_t& checked) const;

  std::map<Key, ActivationArray> arrays_;
  std::map<Key, AttentionArray> attention_;
  uint64_t next_chunk_ = 0;
};

// "blocks.3.hook_resid_post": the TransformerLens name where there is one,
// "blocks.3.attn_norm_out" or "final_norm_out" else.
std::string ArrayName(const v1::HookPointInfo& hook, int64_t layer);

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_ACTIVATION_TABLE_H_
