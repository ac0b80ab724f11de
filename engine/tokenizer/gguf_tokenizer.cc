// The tokenizer of a GGUF file: the keys tokenizer.ggml.*.
//
// Source: ggml-org/ggml docs/gguf.md; where it is silent, llama.cpp's
// src/llama-vocab.cpp decides.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/bpe_model.h"
#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/gguf_vocabulary.h"
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

constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";

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
  ASSIGN_OR_RETURN(const GgufVocabulary vocabulary, ReadGgufVocabulary(reader));
  ASSIGN_OR_RETURN(const std::string pre,
                   reader.String("tokenizer.ggml.pre", "default"));
  ASSIGN_OR_RETURN(NamedPreTokenizer named, MakeNamedPreTokenizer(pre));
  ASSIGN_OR_RETURN(const bool prefix_space,
                   reader.Bool("tokenizer.ggml.add_space_prefix", false));
  if (prefix_space) {
    named.steps.insert(named.steps.begin(), MakePrefixSpaceStep());
  }
  ASSIGN_OR_RETURN(const GgufSpecialIds special,
                   ReadGgufSpecialIds(reader, vocabulary.size()));
  ASSIGN_OR_RETURN(const BpePieces pieces, ReadBpePieces(reader, vocabulary));
  TokenizerParts parts;
  ASSIGN_OR_RETURN(
      parts.model,
      BpeModel::Create(
          pieces, {.byte_level = true, .ignore_merges = named.ignore_merges}));
  ASSIGN_OR_RETURN(const std::vector<Vocabulary::Piece> decoded,
                   MakeGgufPieces(vocabulary, DecodeByteLevel));
  parts.vocabulary = Vocabulary(decoded);
  parts.added_tokens = vocabulary.added_tokens;
  parts.normalizer = Normalizer(std::move(named.normalizer));
  parts.pre_tokenizer = PreTokenizer(std::move(named.steps));
  RETURN_IF_ERROR(SetGgufSpecialIds(reader, special, named.adds_bos, &parts));
  return parts;
}

absl::StatusOr<std::vector<SpmPiece>> ReadSpmPieces(
    const JsonReader& reader, const GgufVocabulary& vocabulary,
    const std::vector<Vocabulary::Piece>& decoded) {
  ASSIGN_OR_RETURN(const ordered_json* scores, reader.Array(kScores));
  const size_t num_scores = scores == nullptr ? 0 : scores->size();
  if (num_scores != vocabulary.texts.size()) {
    return absl::DataLossError(absl::StrFormat("%s has %d entries, %s has %d",
                                               kScores, num_scores, kGgufTokens,
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

void MarkByteTokens(GgufVocabulary* vocabulary) {
  for (size_t i = 0; i < vocabulary->texts.size(); ++i) {
    if (ParseByteToken(vocabulary->texts[i])) {
      vocabulary->kinds[i] = TokenKind::kByte;
    }
  }
}

absl::StatusOr<TokenizerParts> MakeSpm(const JsonReader& reader) {
  RETURN_IF_ERROR(RefuseUnsupported(reader));
  ASSIGN_OR_RETURN(GgufVocabulary vocabulary, ReadGgufVocabulary(reader));
  if (!vocabulary.has_types) MarkByteTokens(&vocabulary);
  const int64_t vocab_size = vocabulary.size();
  ASSIGN_OR_RETURN(GgufSpecialIds special,
                   ReadGgufSpecialIds(reader, vocab_size));
  // SentencePiece's own ids, where the file does not say.
  if (!special.unk) special.unk = 0;
  if (!special.bos && vocab_size > 1) special.bos = 1;
  if (!special.eos && vocab_size > 2) {
    special.eos = 2;
    special.ends.push_back(2);
  }
  ASSIGN_OR_RETURN(const std::vector<Vocabulary::Piece> decoded,
                   MakeGgufPieces(vocabulary, DecodeSpaceMarks));
  ASSIGN_OR_RETURN(const std::vector<SpmPiece> pieces,
                   ReadSpmPieces(reader, vocabulary, decoded));
  TokenizerParts parts;
  ASSIGN_OR_RETURN(parts.model,
                   SpmModel::Create(pieces, kSpaceMark, special.unk));
  parts.vocabulary = Vocabulary(decoded);
  parts.added_tokens = vocabulary.added_tokens;
  ASSIGN_OR_RETURN(const bool prefix_space,
                   reader.Bool("tokenizer.ggml.add_space_prefix", true));
  std::vector<std::unique_ptr<NormalizerStep>> steps;
  if (prefix_space) steps.push_back(MakePrependStep(std::string(kSpaceMark)));
  steps.push_back(MakeReplaceStep(" ", std::string(kSpaceMark)));
  parts.normalizer = Normalizer(std::move(steps));
  parts.strips_leading_space = prefix_space;
  RETURN_IF_ERROR(
      SetGgufSpecialIds(reader, special, /*adds_bos=*/true, &parts));
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
