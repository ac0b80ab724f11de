#include "engine/tokenizer/gguf_vocabulary.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/text_map.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kTokenType = "tokenizer.ggml.token_type";

absl::StatusOr<TokenKind> KindOfType(size_t index, const ordered_json& type) {
  const std::string key = Indexed(kTokenType, index);
  if (!type.is_number_integer()) {
    return absl::DataLossError(
        absl::StrFormat("%s: found %s, wanted integer", key, type.type_name()));
  }
  switch (type.get<int64_t>()) {
    case 1:
      return TokenKind::kNormal;
    case 2:
      return TokenKind::kUnknown;
    case 3:
      return TokenKind::kControl;
    case 4:
      return TokenKind::kUserDefined;
    case 5:
      return TokenKind::kUnused;
    case 6:
      return TokenKind::kByte;
    default:
      return absl::DataLossError(
          absl::StrFormat("%s is %d, wanted 1 to 6", key, type.get<int64_t>()));
  }
}

// Phi 3's control tokens take the white space after them; the format has no
// key for that, so llama.cpp too goes by the name.
bool ControlTokensStripRight(const JsonReader& reader) {
  const absl::StatusOr<std::string> name = reader.String("general.name", "");
  if (!name.ok()) return false;
  const std::string lower = absl::AsciiStrToLower(*name);
  return lower.find("phi-3") != std::string::npos ||
         lower.find("phi3") != std::string::npos;
}

bool StripsRight(std::string_view text) {
  return text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
}

absl::StatusOr<std::string> ByteOf(size_t index, std::string_view text) {
  const std::optional<uint8_t> byte = ParseByteToken(text);
  if (byte) return std::string(1, static_cast<char>(*byte));
  return absl::DataLossError(
      absl::StrFormat("%s[%d] is of type byte but reads %s, wanted <0xNN>",
                      kGgufTokens, index, Quote(text)));
}

}  // namespace

absl::StatusOr<GgufVocabulary> ReadGgufVocabulary(const JsonReader& reader) {
  ASSIGN_OR_RETURN(const ordered_json* tokens, reader.Array(kGgufTokens));
  if (tokens == nullptr || tokens->empty()) {
    return absl::DataLossError(
        absl::StrFormat("%s is missing or empty", kGgufTokens));
  }
  ASSIGN_OR_RETURN(const ordered_json* types, reader.Array(kTokenType));
  if (types != nullptr && types->size() != tokens->size()) {
    return absl::DataLossError(absl::StrFormat("%s has %d entries, %s has %d",
                                               kTokenType, types->size(),
                                               kGgufTokens, tokens->size()));
  }
  const bool strip_right = ControlTokensStripRight(reader);
  GgufVocabulary vocabulary;
  vocabulary.has_types = types != nullptr;
  vocabulary.texts.reserve(tokens->size());
  vocabulary.kinds.reserve(tokens->size());
  for (size_t i = 0; i < tokens->size(); ++i) {
    const ordered_json& token = (*tokens)[i];
    if (!token.is_string()) {
      return reader.Mismatch(Indexed(kGgufTokens, i), token, "string");
    }
    const std::string_view text = token.get_ref<const std::string&>();
    TokenKind kind = TokenKind::kNormal;
    if (types != nullptr) {
      ASSIGN_OR_RETURN(kind, KindOfType(i, (*types)[i]));
    }
    vocabulary.texts.push_back(text);
    vocabulary.kinds.push_back(kind);
    const bool added =
        kind == TokenKind::kControl || kind == TokenKind::kUserDefined;
    if (!added || text.empty()) continue;
    vocabulary.added_tokens.push_back(
        {.content = std::string(text),
         .id = static_cast<int32_t>(i),
         .special = kind == TokenKind::kControl,
         .rstrip = strip_right && StripsRight(text)});
  }
  return vocabulary;
}

absl::StatusOr<std::vector<Vocabulary::Piece>> MakeGgufPieces(
    const GgufVocabulary& vocabulary,
    absl::FunctionRef<std::string(std::string_view text)> decode) {
  std::vector<Vocabulary::Piece> pieces(vocabulary.texts.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view text = vocabulary.texts[i];
    pieces[i].kind = vocabulary.kinds[i];
    switch (pieces[i].kind) {
      case TokenKind::kNormal:
      case TokenKind::kUnused:
        pieces[i].bytes = decode(text);
        break;
      case TokenKind::kByte: {
        ASSIGN_OR_RETURN(pieces[i].bytes, ByteOf(i, text));
        break;
      }
      case TokenKind::kUnknown:
      case TokenKind::kControl:
      case TokenKind::kUserDefined:
        pieces[i].bytes = text;
        break;
    }
  }
  return pieces;
}

absl::StatusOr<GgufSpecialIds> ReadGgufSpecialIds(const JsonReader& reader,
                                                  int64_t vocab_size) {
  GgufSpecialIds special;
  struct Key {
    std::string_view name;
    std::optional<int32_t>* id;
    bool ends_text;
  };
  std::optional<int32_t> other;
  const Key keys[] = {
      {"bos", &special.bos, false},
      {"eos", &special.eos, true},
      {"eot", &other, true},
      {"eom", &other, true},
      {"unknown", &special.unk, false},
      {"padding", &other, false},
      {"seperator", &other, false},
      {"cls", &other, false},
      {"mask", &other, false},
  };
  for (const Key& key : keys) {
    const std::string name =
        absl::StrFormat("tokenizer.ggml.%s_token_id", key.name);
    ASSIGN_OR_RETURN(*key.id, ReadTokenId(reader, name, vocab_size));
    const bool is_new =
        *key.id && std::find(special.ends.begin(), special.ends.end(),
                             **key.id) == special.ends.end();
    if (key.ends_text && is_new) special.ends.push_back(**key.id);
  }
  return special;
}

absl::Status SetGgufSpecialIds(const JsonReader& reader,
                               const GgufSpecialIds& special, bool adds_bos,
                               TokenizerParts* parts) {
  constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
  constexpr std::string_view kAddEos = "tokenizer.ggml.add_eos_token";
  ASSIGN_OR_RETURN(const bool add_bos,
                   reader.Bool(kAddBos, adds_bos && special.bos.has_value()));
  ASSIGN_OR_RETURN(const bool add_eos, reader.Bool(kAddEos, false));
  if (add_bos && !special.bos) {
    return absl::DataLossError(
        absl::StrFormat("%s is true, but there is no bos_token_id", kAddBos));
  }
  if (add_eos && !special.eos) {
    return absl::DataLossError(
        absl::StrFormat("%s is true, but there is no eos_token_id", kAddEos));
  }
  if (add_bos) parts->prefix_ids.push_back(*special.bos);
  if (add_eos) parts->suffix_ids.push_back(*special.eos);
  parts->bos_token_id = special.bos;
  parts->end_token_ids = special.ends;
  return absl::OkStatus();
}

}  // namespace headrace
