#include "engine/weights/llama2c_vocabulary.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/weights/byte_cursor.h"
#include "engine/weights/file_error.h"
#include "engine/weights/mapped_file.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

std::string Latin1ToUtf8(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xC0 | (byte >> 6));
      text += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<Json> ReadLlama2cVocabulary(const std::string& path,
                                           int64_t vocab_size) {
  ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  ByteCursor cursor(file.bytes());
  Json::array_t tokens;
  Json::array_t scores;
  const bool has_length = cursor.Read<int32_t>().has_value();
  for (int64_t id = 0; has_length && id < vocab_size; ++id) {
    const uint64_t offset = cursor.offset();
    const std::optional<float> score = cursor.Read<float>();
    const std::optional<int32_t> size = cursor.Read<int32_t>();
    std::optional<std::string_view> bytes;
    if (size.has_value() && *size >= 0) bytes = cursor.ReadBytes(*size);
    if (!bytes.has_value()) {
      return FileErrorAt(
          file.name(), offset,
          absl::StrFormat("token %d of %d is not complete; the file has %d "
                          "bytes",
                          id, vocab_size, file.bytes().size()));
    }
    tokens.push_back(Latin1ToUtf8(*bytes));
    scores.push_back(*score);
  }
  if (!has_length || cursor.remaining() != 0) {
    return FileErrorAt(file.name(), cursor.offset(),
                       absl::StrFormat("the %d tokens of the model end here; "
                                       "the file has %d bytes",
                                       vocab_size, file.bytes().size()));
  }
  return Json{{"tokens", std::move(tokens)}, {"scores", std::move(scores)}};
}

}  // namespace headrace
