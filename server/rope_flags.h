// The command line's words for context extension.
#ifndef HEADRACE_SERVER_ROPE_FLAGS_H_
#define HEADRACE_SERVER_ROPE_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "engine/engine.h"

namespace headrace {

// As given; what is unset keeps what the model's file says.
struct RopeFlags {
  std::string scaling;
  absl::optional<double> factor;
  absl::optional<double> theta;
  absl::optional<int64_t> original_max_position_embeddings;
  absl::optional<double> attention_factor;
  absl::optional<double> beta_fast;
  absl::optional<double> beta_slow;
  absl::optional<double> mscale;
  absl::optional<double> mscale_all_dim;
  absl::optional<bool> truncate;
  absl::optional<double> low_freq_factor;
  absl::optional<double> high_freq_factor;
  absl::optional<double> partial_rotary_factor;
  std::vector<std::string> short_factor;  // numbers
  std::vector<std::string> long_factor;
  int64_t context_length = 0;
};

// Errors: INVALID_ARGUMENT for an unknown scaling, a list with something else
// than numbers, and parameters without a scaling to take them.
absl::StatusOr<RopeRequest> ToRopeRequest(const RopeFlags& flags);

}  // namespace headrace

#endif  // HEADRACE_SERVER_ROPE_FLAGS_H_
