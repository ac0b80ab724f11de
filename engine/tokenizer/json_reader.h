// Typed reads from the metadata of a tokenizer, with errors that name the key,
// what was found and what was wanted.
#ifndef HEADRACE_ENGINE_TOKENIZER_JSON_READER_H_
#define HEADRACE_ENGINE_TOKENIZER_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace headrace {

// An object within a file, and what to call it in messages.
class JsonReader {
 public:
  // `object` outlives this. `path`: "tokenizer.model", or empty for the top.
  JsonReader(const nlohmann::ordered_json& object, std::string path)
      : object_(&object), path_(std::move(path)) {}

  const nlohmann::ordered_json& object() const { return *object_; }
  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view key) const;

  // Null when the key is absent or its value is null.
  const nlohmann::ordered_json* Find(std::string_view key) const;

  // The value; `absent` when there is none.
  // Errors: DATA_LOSS for a value of another type.
  absl::StatusOr<bool> Bool(std::string_view key, bool absent) const;
  absl::StatusOr<std::string> String(std::string_view key,
                                     std::string_view absent) const;
  absl::StatusOr<std::optional<int64_t>> Int(std::string_view key) const;
  // Null when absent.
  absl::StatusOr<const nlohmann::ordered_json*> Array(
      std::string_view key) const;
  // Errors: DATA_LOSS when absent or no object.
  absl::StatusOr<JsonReader> Object(std::string_view key) const;

  // Errors: UNIMPLEMENTED naming a key that is none of `known`: what is not
  // understood is never ignored.
  absl::Status RefuseOthers(
      std::initializer_list<std::string_view> known) const;

  // DATA_LOSS: "<path>: found <type of value>, wanted <wanted>".
  absl::Status Mismatch(std::string_view key,
                        const nlohmann::ordered_json& value,
                        std::string_view wanted) const;

 private:
  const nlohmann::ordered_json* object_;
  std::string path_;
};

// "key[index]".
std::string Indexed(std::string_view key, size_t index);

// The id of `key`, which must be one of a vocabulary of `vocab_size`.
// Errors: DATA_LOSS naming the key, the id and the limit.
absl::StatusOr<std::optional<int32_t>> ReadTokenId(const JsonReader& reader,
                                                   std::string_view key,
                                                   int64_t vocab_size);
absl::Status CheckTokenId(std::string_view path, int64_t id,
                          int64_t vocab_size);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JSON_READER_H_
