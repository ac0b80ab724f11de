#include "engine/rope/json_fields.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

absl::Status WrongType(const JsonScope& scope, std::string_view key,
                       const char* wanted, const Json& value) {
  constexpr size_t kMaxShown = 60;
  std::string shown =
      value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > kMaxShown) shown = shown.substr(0, kMaxShown) + "...";
  return absl::InvalidArgumentError(
      absl::StrCat(scope.PathOf(key), " must be ", wanted, "; is ", shown));
}

}  // namespace

const Json* FindValue(const JsonScope& scope, std::string_view key) {
  if (!scope.object.is_object()) return nullptr;
  const auto it = scope.object.find(key);
  if (it == scope.object.end() || it->is_null()) return nullptr;
  return &*it;
}

absl::StatusOr<std::optional<double>> ReadNumber(const JsonScope& scope,
                                                 std::string_view key) {
  const Json* value = FindValue(scope, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) return WrongType(scope, key, "a number", *value);
  return value->get<double>();
}

absl::StatusOr<std::optional<int64_t>> ReadInteger(const JsonScope& scope,
                                                   std::string_view key) {
  constexpr double kExactIntegers = 9007199254740992.0;  // 2^53
  const Json* value = FindValue(scope, key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : 0.5;
  if (number != std::floor(number) || std::abs(number) > kExactIntegers) {
    return WrongType(scope, key, "a whole number", *value);
  }
  return static_cast<int64_t>(number);
}

absl::StatusOr<std::optional<bool>> ReadBool(const JsonScope& scope,
                                             std::string_view key) {
  const Json* value = FindValue(scope, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) return WrongType(scope, key, "a Boolean", *value);
  return value->get<bool>();
}

absl::StatusOr<std::optional<std::string>> ReadString(const JsonScope& scope,
                                                      std::string_view key) {
  const Json* value = FindValue(scope, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) return WrongType(scope, key, "a string", *value);
  return value->get<std::string>();
}

absl::StatusOr<std::vector<double>> ReadNumbers(const JsonScope& scope,
                                                std::string_view key) {
  const Json* value = FindValue(scope, key);
  std::vector<double> numbers;
  if (value == nullptr) return numbers;
  if (!value->is_array()) {
    return WrongType(scope, key, "a list of numbers", *value);
  }
  for (const Json& element : *value) {
    if (!element.is_number()) {
      return WrongType(scope, key, "a list of numbers", *value);
    }
    numbers.push_back(element.get<double>());
  }
  return numbers;
}

}  // namespace headrace
