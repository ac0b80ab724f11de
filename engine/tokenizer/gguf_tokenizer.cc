// The tokenizer of a GGUF file: the keys tokenizer.ggml.*.
//
// Source: ggml-org/ggml docs/gguf.md; where it is silent, llama.cpp's
// src/llama-vocab.cpp decides.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/bpe_model.h"
#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/json_reader.h"
#include "engine/tokenizer/pipeline_tokenizer.h"
#include "engine/tokenizer/pre_tokenizer_table.h"
#include "engine/tokenizer/spm_model.h"
#include "engine/tokenizer/text_map.h"
#include "engine/tokenizer/tokenizer_factory.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

// U+2581.
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTokenType = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";

struct GgufVocabulary {
  std::vector<std::string_view> texts;  // as in the file
  std::vector<TokenKind> kinds;
  std::vector<AddedToken> added_tokens;
};

absl::StatusOr<TokenKind> KindOfType(size_t index, const ordered_json& type) {
  const std::string key = Indexed(kTokenType, index);
  if (!type.is_number_integer()) {
    return absl::DataLossError(
        absl::StrCat(key, ": found ", type.type_name(), ", wanted integer"));
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

absl::StatusOr<GgufVocabulary> ReadVocabulary(const JsonReader& reader) {
  ASSIGN_OR_RETURN(const ordered_json* tokens, reader.Array(kTokens));
  if (tokens == nullptr || tokens->empty()) {
    return absl::DataLossError(
        absl::StrFormat("%s is missing or empty", kTokens));
  }
  ASSIGN_OR_RETURN(const ordered_json* types, reader.Array(kTokenType));
  if (types != nullptr && types->size() != tokens->size()) {
    return absl::DataLossError(absl::StrFormat("%s has %d entries, %s has %d",
                                               kTokenType, types->size(),
                                               kTokens, tokens->size()));
  }
  const bool strip_right = ControlTokensStripRight(reader);
  GgufVocabulary vocabulary;
  vocabulary.texts.reserve(tokens->size());
  vocabulary.kinds.reserve(tokens->size());
  for (size_t i = 0; i < tokens->size(); ++i) {
    const ordered_json& token = (*tokens)[i];
    if (!token.is_string()) {
      return reader.Mismatch(Indexed(kTokens, i), token, "string");
    }
    const std::string_view text = token.get_ref<const std::string&>();
    TokenKind kind =
        ParseByteToken(text) ? TokenKind::kByte : TokenKind::kNormal;
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

absl::StatusOr<std::string> ByteOf(size_t index, std::string_view text) {
  const std::optional<uint8_t> byte = ParseByteToken(text);
  if (byte) return std::string(1, static_cast<char>(*byte));
  return absl::DataLossError(
      absl::StrFormat("%s[%d] is of type byte but reads %s, wanted <0xNN>",
                      kTokens, index, Quote(text)));
}

// The bytes that each token stands for. `decode`: for a normal token's text.
template <typename Decode>
absl::StatusOr<std::vector<Vocabulary::Piece>> MakePieces(
    const GgufVocabulary& vocabulary, const Decode& decode) {
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

std::string DecodeByteLevel(std::string_view text) {
  return FromByteLevel(text).value_or(std::string(text));
}

std::string DecodeSpaceMarks(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (text.starts_with(kSpaceMark)) {
      out.push_back(' ');
      text.remove_prefix(kSpaceMark.size());
    } else {
      out.push_back(text.front());
      text.remove_prefix(1);
    }
  }
  return out;
}

struct SpecialIds {
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> unk;
  std::vector<int32_t> ends;
};

absl::StatusOr<SpecialIds> ReadSpecialIds(const JsonReader& reader,
                                          int64_t vocab_size) {
  SpecialIds special;
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

// BOS and EOS around a text. `adds_bos`: where the file does not say.
absl::Status SetSpecialIds(const JsonReader& reader, const SpecialIds& special,
                           bool adds_bos, TokenizerParts* parts) {
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

absl::StatusOr<BpePieces> ReadBpePieces(const JsonReader& reader,
                                        const GgufVocabulary& vocabulary) {
  BpePieces pieces;
  pieces.ids.reserve(vocabulary.texts.size());
  for (size_t i = 0; i < vocabulary.texts.size(); ++i) {
    pieces.ids.emplace(vocabulary.texts[i], static_cast<int32_t>(i));
  }
  ASSIGN_OR_RETURN(const ordered_json* merges, reader.Array(kMerges));
  if (merges == nullptr) return pieces;
  pieces.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const ordered_json& merge = (*merges)[i];
    const std::string key = Indexed(kMerges, i);
    if (!merge.is_string()) return reader.Mismatch(key, merge, "string");
    const std::string_view text = merge.get_ref<const std::string&>();
    const auto pair = SplitMerge(text);
    if (!pair) {
      return absl::DataLossError(absl::StrFormat(
          "%s is %s, wanted two pieces and a space", key, Quote(text)));
    }
    pieces.merges.push_back(*pair);
  }
  return pieces;
}

absl::StatusOr<TokenizerParts> MakeBpe(const JsonReader& reader) {
  ASSIGN_OR_RETURN(const GgufVocabulary vocabulary, ReadVocabulary(reader));
  ASSIGN_OR_RETURN(const std::string pre,
                   reader.String("tokenizer.ggml.pre", "default"));
  ASSIGN_OR_RETURN(NamedPreTokenizer named, MakeNamedPreTokenizer(pre));
  ASSIGN_OR_RETURN(const bool prefix_space,
                   reader.Bool("tokenizer.ggml.add_space_prefix", false));
  if (prefix_space) {
    named.steps.insert(named.steps.begin(), MakePrefixSpaceStep());
  }
  ASSIGN_OR_RETURN(
      const SpecialIds special,
      ReadSpecialIds(reader, static_cast<int64_t>(vocabulary.texts.size())));
  ASSIGN_OR_RETURN(const BpePieces pieces, ReadBpePieces(reader, vocabulary));
  TokenizerParts parts;
  ASSIGN_OR_RETURN(
      parts.model,
      BpeModel::Create(
          pieces, {.byte_level = true, .ignore_merges = named.ignore_merges}));
  ASSIGN_OR_RETURN(std::vector<Vocabulary::Piece> decoded,
                   MakePieces(vocabulary, DecodeByteLevel));
  parts.vocabulary = Vocabulary(std::move(decoded));
  parts.added_tokens = vocabulary.added_tokens;
  parts.normalizer = Normalizer(std::move(named.normalizer));
  parts.pre_tokenizer = PreTokenizer(std::move(named.steps));
  RETURN_IF_ERROR(SetSpecialIds(reader, special, named.adds_bos, &parts));
  return parts;
}

absl::StatusOr<std::vector<SpmPiece>> ReadSpmPieces(
    const JsonReader& reader, const GgufVocabulary& vocabulary,
    const std::vector<Vocabulary::Piece>& decoded) {
  ASSIGN_OR_RETURN(const ordered_json* scores, reader.Array(kScores));
  const size_t num_scores = scores == nullptr ? 0 : scores->size();
  if (num_scores != vocabulary.texts.size()) {
    return absl::DataLossError(absl::StrFormat("%s has %d entries, %s has %d",
                                               kScores, num_scores, kTokens,
                                               vocabulary.texts.size()));
  }
  std::vector<SpmPiece> pieces;
  pieces.reserve(num_scores);
  for (size_t i = 0; i < num_scores; ++i) {
    const ordered_json& score = (*scores)[i];
    if (!score.is_number()) {
      return reader.Mismatch(Indexed(kScores, i), score, "number");
    }
    const TokenKind kind = vocabulary.kinds[i];
    pieces.push_back({kind == TokenKind::kByte
                          ? std::string_view(decoded[i].bytes)
                          : vocabulary.texts[i],
                      score.get<float>(), kind});
  }
  return pieces;
}

// SentencePiece options that the files of this model never use.
absl::Status RefuseUnsupported(const JsonReader& reader) {
  constexpr std::string_view kSpaces =
      "tokenizer.ggml.remove_extra_whitespaces";
  ASSIGN_OR_RETURN(const bool removes_spaces, reader.Bool(kSpaces, false));
  if (removes_spaces) {
    return absl::UnimplementedError(
        absl::StrFormat("%s is not supported for the model llama", kSpaces));
  }
  constexpr std::string_view kCharsmap = "tokenizer.ggml.precompiled_charsmap";
  const ordered_json* const charsmap = reader.Find(kCharsmap);
  if (charsmap != nullptr && !charsmap->empty()) {
    return absl::UnimplementedError(
        absl::StrFormat("%s is not supported for the model llama", kCharsmap));
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerParts> MakeSpm(const JsonReader& reader) {
  RETURN_IF_ERROR(RefuseUnsupported(reader));
  ASSIGN_OR_RETURN(const GgufVocabulary vocabulary, ReadVocabulary(reader));
  const auto vocab_size = static_cast<int64_t>(vocabulary.texts.size());
  ASSIGN_OR_RETURN(SpecialIds special, ReadSpecialIds(reader, vocab_size));
  // SentencePiece's own ids, where the file does not say.
  if (!special.unk) special.unk = 0;
  if (!special.bos && vocab_size > 1) special.bos = 1;
  if (!special.eos && vocab_size > 2) {
    special.eos = 2;
    special.ends.push_back(2);
  }
  ASSIGN_OR_RETURN(std::vector<Vocabulary::Piece> decoded,
                   MakePieces(vocabulary, DecodeSpaceMarks));
  ASSIGN_OR_RETURN(const std::vector<SpmPiece> pieces,
                   ReadSpmPieces(reader, vocabulary, decoded));
  TokenizerParts parts;
  ASSIGN_OR_RETURN(parts.model,
                   SpmModel::Create(pieces, kSpaceMark, special.unk));
  parts.vocabulary = Vocabulary(std::move(decoded));
  parts.added_tokens = vocabulary.added_tokens;
  ASSIGN_OR_RETURN(const bool prefix_space,
                   reader.Bool("tokenizer.ggml.add_space_prefix", true));
  std::vector<std::unique_ptr<NormalizerStep>> steps;
  if (prefix_space) steps.push_back(MakePrependStep(std::string(kSpaceMark)));
  steps.push_back(MakeReplaceStep(" ", std::string(kSpaceMark)));
  parts.normalizer = Normalizer(std::move(steps));
  parts.strips_leading_space = prefix_space;
  RETURN_IF_ERROR(SetSpecialIds(reader, special, /*adds_bos=*/true, &parts));
  return parts;
}

struct Model {
  std::string_view name;
  absl::StatusOr<TokenizerParts> (*make)(const JsonReader& reader);
};
constexpr Model kModels[] = {{"gpt2", MakeBpe}, {"llama", MakeSpm}};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> CreateTokenizerFromGguf(
    const ordered_json& metadata) {
  constexpr std::string_view kModel = "tokenizer.ggml.model";
  const JsonReader reader(metadata, "");
  ASSIGN_OR_RETURN(const std::string name, reader.String(kModel, "none"));
  if (name == "none" || name == "no_vocab") return nullptr;
  for (const Model& model : kModels) {
    if (model.name != name) continue;
    ASSIGN_OR_RETURN(TokenizerParts parts, model.make(reader));
    return std::make_unique<PipelineTokenizer>(std::move(parts));
  }
  return absl::UnimplementedError(
      absl::StrFormat("%s \"%s\" is not supported", kModel, name));
}

}  // namespace headrace
