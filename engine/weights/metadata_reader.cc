#include "engine/weights/metadata_reader.h"

#include <cmath>
#include <cstddef>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace headrace {
namespace {

// The value as JSON, cut to what fits a message.
std::string Shown(const nlohmann::ordered_json& value) {
  std::string text =
      value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > 60) text = absl::StrCat(text.substr(0, 57), "...");
  return text;
}

}  // namespace

std::string MetadataReader::FullKey(std::string_view key) const {
  return absl::StrCat(path_, prefix_, std::string(key));
}

const nlohmann::ordered_json* MetadataReader::Find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(prefix_ + std::string(key));
  if (found == object_.end() || found->is_null()) return nullptr;
  return &*found;
}

absl::StatusOr<int64_t> MetadataReader::ToInt(
    std::string_view key, const nlohmann::ordered_json& value, int64_t min,
    int64_t max) const {
  const bool fits_signed =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<uint64_t>() <=
           static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (!fits_signed) {
    return absl::DataLossError(absl::StrCat(FullKey(key), " is ", Shown(value),
                                            ", not a whole number in [", min,
                                            ", ", max, "]"));
  }
  const int64_t number = value.get<int64_t>();
  if (number < min || number > max) {
    return absl::DataLossError(absl::StrCat(
        FullKey(key), " is ", number, ", outside [", min, ", ", max, "]"));
  }
  return number;
}

absl::StatusOr<int64_t> MetadataReader::Int(std::string_view key, int64_t min,
                                            int64_t max) const {
  ASSIGN_OR_RETURN(const std::optional<int64_t> value,
                   OptionalInt(key, min, max));
  if (!value.has_value()) {
    return absl::DataLossError(absl::StrCat(FullKey(key), " is missing"));
  }
  return *value;
}

absl::StatusOr<std::optional<int64_t>> MetadataReader::OptionalInt(
    std::string_view key, int64_t min, int64_t max) const {
  const nlohmann::ordered_json* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  ASSIGN_OR_RETURN(const int64_t number, ToInt(key, *value, min, max));
  return std::optional<int64_t>(number);
}

absl::StatusOr<std::optional<int64_t>> MetadataReader::PerLayerInt(
    std::string_view key, int64_t num_layers, int64_t min, int64_t max) const {
  const nlohmann::ordered_json* value = Find(key);
  if (value == nullptr) return std::optional<int64_t>();
  if (!value->is_array()) return OptionalInt(key, min, max);
  if (static_cast<int64_t>(value->size()) != num_layers) {
    return absl::DataLossError(absl::StrCat(FullKey(key), " has ",
                                            value->size(), " values for ",
                                            num_layers, " layers"));
  }
  std::optional<int64_t> common;
  for (const nlohmann::ordered_json& element : *value) {
    ASSIGN_OR_RETURN(const int64_t number, ToInt(key, element, min, max));
    if (common.has_value() && *common != number) {
      return absl::DataLossError(
          absl::StrCat(FullKey(key), " differs between layers (", *common, ", ",
                       number, "); only equal layers are supported"));
    }
    common = number;
  }
  return common;
}

absl::StatusOr<double> MetadataReader::PositiveDouble(
    std::string_view key) const {
  const nlohmann::ordered_json* value = Find(key);
  if (value == nullptr) {
    return absl::DataLossError(absl::StrCat(FullKey(key), " is missing"));
  }
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!std::isfinite(number) || number <= 0) {
    return absl::DataLossError(absl::StrCat(FullKey(key), " is ", Shown(*value),
                                            ", not a finite number > 0"));
  }
  return number;
}

absl::StatusOr<std::optional<bool>> MetadataReader::OptionalBool(
    std::string_view key) const {
  const nlohmann::ordered_json* value = Find(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) {
    return absl::DataLossError(absl::StrCat(FullKey(key), " is ", Shown(*value),
                                            ", not true or false"));
  }
  return std::optional<bool>(value->get<bool>());
}

absl::StatusOr<std::optional<std::string>> MetadataReader::OptionalString(
    std::string_view key) const {
  const nlohmann::ordered_json* value = Find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) {
    return absl::DataLossError(
        absl::StrCat(FullKey(key), " is ", Shown(*value), ", not a string"));
  }
  return std::optional<std::string>(value->get<std::string>());
}

absl::StatusOr<const nlohmann::ordered_json*> MetadataReader::OptionalObject(
    std::string_view key) const {
  const nlohmann::ordered_json* value = Find(key);
  if (value != nullptr && !value->is_object()) {
    return absl::DataLossError(
        absl::StrCat(FullKey(key), " is ", Shown(*value), ", not an object"));
  }
  return value;
}

}  // namespace headrace
