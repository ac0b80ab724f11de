// JSON files of any size to ordered_json: limits first, and objects built in
// linear time (the library's own parser searches an ordered object for every
// key, which takes minutes for a vocabulary).
#ifndef HEADRACE_ENGINE_WEIGHTS_JSON_DOCUMENT_H_
#define HEADRACE_ENGINE_WEIGHTS_JSON_DOCUMENT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headrace {

inline constexpr size_t kMaxJsonBytes = size_t{1} << 28;  // 256 MiB
inline constexpr size_t kMaxJsonDepth = 64;

// Parses one whole document. Of a key that an object has twice, the last value
// counts, as in Python; a warning names it.
//
// Errors: DATA_LOSS naming `file_name` and the offset: not JSON, not UTF-8,
// larger or deeper than the limits above.
absl::StatusOr<nlohmann::ordered_json> ParseJson(
    std::string_view text, std::string_view file_name,
    std::vector<std::string>& warnings);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_JSON_DOCUMENT_H_
