// Typed reads of single values out of metadata, with errors that name the key,
// the value and what is wanted. A null counts as absent.
#ifndef HEADRACE_ENGINE_ROPE_JSON_FIELDS_H_
#define HEADRACE_ENGINE_ROPE_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headrace {

// An object and the path that messages put before its keys.
struct JsonScope {
  const nlohmann::ordered_json& object;
  std::string path;  // "rope_scaling.", or "" at the top

  std::string PathOf(std::string_view key) const {
    return path + std::string(key);
  }
};

// The value at `key`; null when it is absent or a JSON null.
const nlohmann::ordered_json* FindValue(const JsonScope& scope,
                                        std::string_view key);

// Each: nullopt when absent. Errors: INVALID_ARGUMENT for another type. A
// Boolean is not a number, a string never is; ReadInteger takes whole floats.
absl::StatusOr<std::optional<double>> ReadNumber(const JsonScope& scope,
                                                 std::string_view key);
absl::StatusOr<std::optional<int64_t>> ReadInteger(const JsonScope& scope,
                                                   std::string_view key);
absl::StatusOr<std::optional<bool>> ReadBool(const JsonScope& scope,
                                             std::string_view key);
absl::StatusOr<std::optional<std::string>> ReadString(const JsonScope& scope,
                                                      std::string_view key);
// Empty when absent.
absl::StatusOr<std::vector<double>> ReadNumbers(const JsonScope& scope,
                                                std::string_view key);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_JSON_FIELDS_H_
