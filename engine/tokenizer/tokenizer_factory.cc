#include "engine/tokenizer/tokenizer_factory.h"

#include "absl/status/status.h"

namespace headrace {
namespace {

struct Line {
  TokenizerFormat format;
  absl::StatusOr<std::unique_ptr<Tokenizer>> (*create)(
      const nlohmann::ordered_json& metadata);
};

constexpr Line kTable[] = {
    {TokenizerFormat::kGguf, CreateTokenizerFromGguf},
    {TokenizerFormat::kHuggingFace, CreateTokenizerFromHuggingFace},
    {TokenizerFormat::kLlama2c, CreateTokenizerFromLlama2c},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> CreateTokenizer(
    const nlohmann::ordered_json& metadata, TokenizerFormat format) {
  for (const Line& line : kTable) {
    if (line.format == format) return line.create(metadata);
  }
  return absl::InternalError("no tokenizer is made from this file format");
}

}  // namespace headrace
