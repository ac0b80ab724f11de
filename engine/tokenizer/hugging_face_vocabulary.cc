#include "engine/tokenizer/hugging_face_vocabulary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

// More than any vocabulary, and little enough to make a table of.
constexpr int64_t kMaxVocabSize = int64_t{1} << 24;

// The special tokens that tokenizer_config.json names one by one.
constexpr std::string_view kNamedTokens[] = {
    "bos_token", "eos_token", "unk_token", "sep_token",
    "pad_token", "cls_token", "mask_token"};

bool IsPossibleId(int64_t id) { return id >= 0 && id < kMaxVocabSize; }

absl::Status ImpossibleId(std::string_view path, int64_t id) {
  return absl::DataLossError(absl::StrFormat("%s has id %d, wanted 0 to %d",
                                             path, id, kMaxVocabSize - 1));
}

absl::Status ReadFlags(const JsonReader& entry, AddedToken* token) {
  ASSIGN_OR_RETURN(token->special, entry.Bool("special", token->special));
  ASSIGN_OR_RETURN(token->normalized,
                   entry.Bool("normalized", !token->special));
  ASSIGN_OR_RETURN(token->lstrip, entry.Bool("lstrip", false));
  ASSIGN_OR_RETURN(token->rstrip, entry.Bool("rstrip", false));
  ASSIGN_OR_RETURN(token->single_word, entry.Bool("single_word", false));
  return absl::OkStatus();
}

}  // namespace

std::optional<std::string> TokenContent(const ordered_json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) return std::nullopt;
  const auto content = token.find("content");
  if (content == token.end() || !content->is_string()) return std::nullopt;
  return content->get<std::string>();
}

absl::StatusOr<HfVocabulary> HfVocabulary::Create(const JsonReader& file,
                                                  const JsonReader& model,
                                                  const ordered_json* config) {
  HfVocabulary vocabulary;
  RETURN_IF_ERROR(vocabulary.AddModelPieces(model));
  ASSIGN_OR_RETURN(const ordered_json* added, file.Array("added_tokens"));
  for (size_t i = 0; added != nullptr && i < added->size(); ++i) {
    const std::string path = Indexed(file.PathOf("added_tokens"), i);
    ASSIGN_OR_RETURN(const std::optional<int64_t> id,
                     JsonReader((*added)[i], path).Int("id"));
    RETURN_IF_ERROR(vocabulary.AddToken((*added)[i], path, id));
  }
  if (config != nullptr) {
    RETURN_IF_ERROR(vocabulary.AddConfigTokens(*config));
  }
  if (vocabulary.size_ == 0) {
    return absl::DataLossError("the tokenizer has no tokens");
  }
  return vocabulary;
}

absl::Status HfVocabulary::AddModelPieces(const JsonReader& model) {
  ASSIGN_OR_RETURN(const JsonReader vocab, model.Object("vocab"));
  model_ids_.reserve(vocab.object().size());
  std::vector<bool> taken;
  for (const auto& [text, value] : vocab.object().items()) {
    if (!value.is_number_integer()) {
      return vocab.Mismatch(Quote(text), value, "integer");
    }
    const auto id = value.get<int64_t>();
    if (!IsPossibleId(id)) return ImpossibleId(vocab.PathOf(Quote(text)), id);
    if (id >= size_) {
      size_ = id + 1;
      texts_.resize(size_);
      taken.resize(size_, false);
    }
    if (taken[id]) {
      return absl::DataLossError(
          absl::StrFormat("%s: the id %d is that of %s too",
                          vocab.PathOf(Quote(text)), id, Quote(texts_[id])));
    }
    taken[id] = true;
    const auto [entry, is_new] =
        model_ids_.emplace(text, static_cast<int32_t>(id));
    texts_[id] = entry->first;
  }
  return absl::OkStatus();
}

absl::Status HfVocabulary::AddToken(const ordered_json& entry,
                                    const std::string& path,
                                    std::optional<int64_t> id) {
  AddedToken token;
  const std::optional<std::string> content = TokenContent(entry);
  if (!content || content->empty()) {
    return absl::DataLossError(
        absl::StrCat(path, ".content is missing or empty"));
  }
  token.content = *content;
  RETURN_IF_ERROR(ReadFlags(JsonReader(entry, path), &token));
  const std::optional<int32_t> known = Find(token.content);
  if (!id) id = known;
  if (!id) return absl::DataLossError(absl::StrCat(path, ".id is missing"));
  if (!IsPossibleId(*id)) return ImpossibleId(path, *id);
  if (known && *known != *id) {
    return absl::DataLossError(
        absl::StrFormat("%s: %s has id %d, but %d elsewhere", path,
                        Quote(token.content), *id, *known));
  }
  token.id = static_cast<int32_t>(*id);
  size_ = std::max(size_, *id + 1);
  const auto [entry_index, is_new] =
      added_index_.emplace(token.content, added_.size());
  if (is_new) {
    added_.push_back(std::move(token));
  } else {
    AddedToken& first = added_[entry_index->second];
    first.special = first.special || token.special;
  }
  return absl::OkStatus();
}

absl::Status HfVocabulary::AddConfigTokens(const ordered_json& config) {
  const JsonReader reader(config, "tokenizer_config");
  if (reader.Find("added_tokens_decoder") != nullptr) {
    ASSIGN_OR_RETURN(const JsonReader decoder,
                     reader.Object("added_tokens_decoder"));
    for (const auto& [key, entry] : decoder.object().items()) {
      int64_t id = 0;
      if (!absl::SimpleAtoi(key, &id)) {
        return absl::DataLossError(
            absl::StrCat(decoder.PathOf(key), " is not a token id"));
      }
      RETURN_IF_ERROR(AddToken(entry, decoder.PathOf(key), id));
    }
  }
  return AddNamedTokens(reader);
}

absl::Status HfVocabulary::AddNamedTokens(const JsonReader& config) {
  for (const std::string_view key : kNamedTokens) {
    const ordered_json* const token = config.Find(key);
    if (token == nullptr) continue;
    RETURN_IF_ERROR(AddNamedToken(*token, config.PathOf(key)));
  }
  constexpr std::string_view kMore = "additional_special_tokens";
  ASSIGN_OR_RETURN(const ordered_json* more, config.Array(kMore));
  for (size_t i = 0; more != nullptr && i < more->size(); ++i) {
    RETURN_IF_ERROR(
        AddNamedToken((*more)[i], Indexed(config.PathOf(kMore), i)));
  }
  return absl::OkStatus();
}

// Text that is no piece gets no id: the model has no row for it.
absl::Status HfVocabulary::AddNamedToken(const ordered_json& token,
                                         const std::string& path) {
  const std::optional<std::string> content = TokenContent(token);
  if (!content) {
    return absl::DataLossError(absl::StrCat(path, " is no token"));
  }
  const std::optional<int32_t> id = Find(*content);
  if (!id) return absl::OkStatus();
  if (const auto it = added_index_.find(*content); it != added_index_.end()) {
    // Whatever its own flag says: text must not become it.
    added_[it->second].special = true;
    return absl::OkStatus();
  }
  ordered_json entry = token.is_object() ? token : ordered_json::object();
  entry["content"] = *content;
  entry["special"] = true;
  return AddToken(entry, path, *id);
}

std::optional<int32_t> HfVocabulary::Find(std::string_view text) const {
  if (const auto it = added_index_.find(text); it != added_index_.end()) {
    return added_[it->second].id;
  }
  const auto it = model_ids_.find(text);
  if (it == model_ids_.end()) return std::nullopt;
  return it->second;
}

std::vector<Vocabulary::Piece> HfVocabulary::Decode(
    const HfDecoder& decoder, std::string_view unk_token) const {
  std::vector<Vocabulary::Piece> pieces(size_);
  for (const auto& [text, id] : model_ids_) {
    Vocabulary::Piece& piece = pieces[id];
    const std::optional<uint8_t> byte =
        decoder.byte_fallback ? ParseByteToken(text) : std::nullopt;
    piece.kind = byte ? TokenKind::kByte : TokenKind::kNormal;
    piece.bytes =
        byte ? std::string(1, static_cast<char>(*byte)) : decoder.Decode(text);
  }
  for (const AddedToken& token : added_) {
    Vocabulary::Piece& piece = pieces[token.id];
    piece.bytes = token.content;
    if (!token.special) {
      piece.kind = TokenKind::kUserDefined;
    } else if (token.content == unk_token) {
      piece.kind = TokenKind::kUnknown;
    } else {
      piece.kind = TokenKind::kControl;
    }
  }
  return pieces;
}

}  // namespace headrace
