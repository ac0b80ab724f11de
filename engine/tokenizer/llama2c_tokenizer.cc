// The tokenizer of llama2.c: pieces and scores, with the ids of its special
// tokens fixed by the program.
//
// Source: karpathy/llama2.c, run.c, build_tokenizer(), encode() and decode():
// BOS is 1, EOS is 2 and either ends a text; the byte b is token b + 3; a
// space goes before every text.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/json_reader.h"
#include "engine/tokenizer/pipeline_tokenizer.h"
#include "engine/tokenizer/spm_model.h"
#include "engine/tokenizer/tokenizer_factory.h"
#include "engine/tokenizer/utf8.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

constexpr int32_t kUnk = 0;
constexpr int32_t kBos = 1;
constexpr int32_t kEos = 2;
constexpr int32_t kFirstByte = 3;

// The bytes that Latin-1 text stands for; nullopt for other characters.
std::optional<std::string> FromLatin1(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const Utf8Part part = NextUtf8(text);
    if (part.status != Utf8Status::kValid || part.code_point > 0xFF) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(static_cast<uint8_t>(part.code_point)));
    text.remove_prefix(part.length);
  }
  return bytes;
}

TokenKind KindAt(int32_t id, std::string_view text) {
  if (id == kUnk) return TokenKind::kUnknown;
  if (id == kBos || id == kEos) return TokenKind::kControl;
  if (id < kFirstByte + 256 && ParseByteToken(text) == id - kFirstByte) {
    return TokenKind::kByte;
  }
  return TokenKind::kNormal;
}

absl::StatusOr<std::vector<Vocabulary::Piece>> ReadPieces(
    const ordered_json& tokens) {
  std::vector<Vocabulary::Piece> pieces;
  pieces.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string key = absl::StrCat("tokenizer.tokens[", i, "]");
    if (!tokens[i].is_string()) {
      return absl::DataLossError(absl::StrCat(
          key, ": found ", tokens[i].type_name(), ", wanted string"));
    }
    std::optional<std::string> bytes =
        FromLatin1(tokens[i].get_ref<const std::string&>());
    if (!bytes) {
      return absl::DataLossError(absl::StrCat(key, " is not Latin-1 text"));
    }
    const TokenKind kind = KindAt(static_cast<int32_t>(i), *bytes);
    if (kind == TokenKind::kByte) {
      bytes = std::string(1, static_cast<char>(*ParseByteToken(*bytes)));
    }
    pieces.push_back({*std::move(bytes), kind});
  }
  return pieces;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> CreateTokenizerFromLlama2c(
    const ordered_json& metadata) {
  if (JsonReader(metadata, "").Find("tokenizer") == nullptr) return nullptr;
  ASSIGN_OR_RETURN(const JsonReader reader,
                   JsonReader(metadata, "").Object("tokenizer"));
  ASSIGN_OR_RETURN(const ordered_json* tokens, reader.Array("tokens"));
  ASSIGN_OR_RETURN(const ordered_json* scores, reader.Array("scores"));
  const size_t size = tokens == nullptr ? 0 : tokens->size();
  const size_t num_scores = scores == nullptr ? 0 : scores->size();
  if (size <= kEos || size != num_scores) {
    return absl::DataLossError(absl::StrFormat(
        "tokenizer: found %d tokens and %d scores, wanted as many of each, "
        "and at least %d",
        size, num_scores, kEos + 1));
  }
  ASSIGN_OR_RETURN(const std::vector<Vocabulary::Piece> pieces,
                   ReadPieces(*tokens));
  std::vector<SpmPiece> spm_pieces;
  spm_pieces.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    const ordered_json& score = (*scores)[i];
    if (!score.is_number()) {
      return reader.Mismatch(absl::StrCat("scores[", i, "]"), score, "number");
    }
    spm_pieces.push_back({pieces[i].bytes, score.get<float>(), pieces[i].kind});
  }
  TokenizerParts parts;
  ASSIGN_OR_RETURN(parts.model, SpmModel::Create(spm_pieces, " ", kUnk));
  for (const int32_t id : {kBos, kEos}) {
    if (pieces[id].bytes.empty()) continue;
    parts.added_tokens.push_back(
        {.content = pieces[id].bytes, .id = id, .special = true});
  }
  parts.vocabulary = Vocabulary(pieces);
  std::vector<std::unique_ptr<NormalizerStep>> steps;
  steps.push_back(MakePrependStep(" "));
  parts.normalizer = Normalizer(std::move(steps));
  parts.prefix_ids = {kBos};
  parts.bos_token_id = kBos;
  parts.end_token_ids = {kEos, kBos};
  parts.strips_leading_space = true;
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace headrace
