#include "engine/tokenizer/json_reader.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"

namespace headrace {

using nlohmann::ordered_json;

std::string JsonReader::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key)
                       : absl::StrFormat("%s.%s", path_, key);
}

const ordered_json* JsonReader::Find(std::string_view key) const {
  if (!object_->is_object()) return nullptr;
  const auto it = object_->find(std::string(key));
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

absl::Status JsonReader::Mismatch(std::string_view key,
                                  const ordered_json& value,
                                  std::string_view wanted) const {
  return absl::DataLossError(absl::StrFormat(
      "%s: found %s, wanted %s", PathOf(key), value.type_name(), wanted));
}

absl::StatusOr<bool> JsonReader::Bool(std::string_view key, bool absent) const {
  const ordered_json* const value = Find(key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) return Mismatch(key, *value, "boolean");
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonReader::String(std::string_view key,
                                               std::string_view absent) const {
  const ordered_json* const value = Find(key);
  if (value == nullptr) return std::string(absent);
  if (!value->is_string()) return Mismatch(key, *value, "string");
  return value->get_ref<const std::string&>();
}

absl::StatusOr<std::optional<int64_t>> JsonReader::Int(
    std::string_view key) const {
  const ordered_json* const value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) return Mismatch(key, *value, "integer");
  return value->get<int64_t>();
}

absl::StatusOr<const ordered_json*> JsonReader::Array(
    std::string_view key) const {
  const ordered_json* const value = Find(key);
  if (value != nullptr && !value->is_array()) {
    return Mismatch(key, *value, "array");
  }
  return value;
}

absl::StatusOr<JsonReader> JsonReader::Object(std::string_view key) const {
  const ordered_json* const value = Find(key);
  if (value == nullptr) {
    return absl::DataLossError(PathOf(key) + " is missing");
  }
  if (!value->is_object()) return Mismatch(key, *value, "object");
  return JsonReader(*value, PathOf(key));
}

absl::Status JsonReader::RefuseOthers(
    std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : object_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return absl::UnimplementedError(PathOf(key) + " is not supported");
    }
  }
  return absl::OkStatus();
}

std::string Indexed(std::string_view key, size_t index) {
  return absl::StrFormat("%s[%d]", key, index);
}

absl::Status CheckTokenId(std::string_view path, int64_t id,
                          int64_t vocab_size) {
  if (id >= 0 && id < vocab_size) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "%s is %d, but the tokenizer has %d tokens", path, id, vocab_size));
}

absl::StatusOr<std::optional<int32_t>> ReadTokenId(const JsonReader& reader,
                                                   std::string_view key,
                                                   int64_t vocab_size) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> id, reader.Int(key));
  if (!id) return std::nullopt;
  RETURN_IF_ERROR(CheckTokenId(reader.PathOf(key), *id, vocab_size));
  return static_cast<int32_t>(*id);
}

}  // namespace headrace
