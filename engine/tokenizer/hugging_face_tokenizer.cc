// The tokenizer of a Hugging Face folder: tokenizer.json, with
// tokenizer_config.json, config.json and generation_config.json.
//
// `truncation` and `padding` of tokenizer.json are not used: transformers too
// sets both anew for each call.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/bpe_model.h"
#include "engine/tokenizer/hugging_face_steps.h"
#include "engine/tokenizer/hugging_face_vocabulary.h"
#include "engine/tokenizer/json_reader.h"
#include "engine/tokenizer/pipeline_tokenizer.h"
#include "engine/tokenizer/text_map.h"
#include "engine/tokenizer/tokenizer_factory.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

// Classes that put BOS and EOS around a text by themselves, whatever the
// post-processor says (transformers 4.57, update_post_processor()).
struct TokenizerClass {
  std::string_view name;  // without "Fast"
  bool add_bos;           // where the config does not say
  std::string_view bos;
  std::string_view eos;
};
constexpr TokenizerClass kClasses[] = {
    {"LlamaTokenizer", true, "<s>", "</s>"},
    {"CodeLlamaTokenizer", true, "<s>", "</s>"},
    {"GemmaTokenizer", true, "<bos>", "<eos>"},
    {"CohereTokenizer", true, "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"},
    {"GPTNeoXTokenizer", false, "<|endoftext|>", "<|endoftext|>"},
};

const TokenizerClass* FindClass(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  for (const TokenizerClass& known : kClasses) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

absl::StatusOr<BpePieces> ReadPieces(const JsonReader& model,
                                     const HfVocabulary& vocabulary) {
  BpePieces pieces;
  pieces.ids = vocabulary.model_ids();
  ASSIGN_OR_RETURN(const ordered_json* merges, model.Array("merges"));
  if (merges == nullptr) return pieces;
  pieces.merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const ordered_json& merge = (*merges)[i];
    std::optional<std::pair<std::string_view, std::string_view>> pair;
    if (merge.is_string()) {
      pair = SplitMerge(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      pair.emplace(merge[0].get_ref<const std::string&>(),
                   merge[1].get_ref<const std::string&>());
    }
    if (!pair) {
      return absl::DataLossError(
          absl::StrCat(model.PathOf("merges"), "[", i,
                       "]: wanted \"left right\" or [\"left\", \"right\"]"));
    }
    pieces.merges.push_back(*pair);
  }
  return pieces;
}

absl::Status RefuseUnsupported(const JsonReader& model) {
  ASSIGN_OR_RETURN(const std::string type, model.String("type", "BPE"));
  if (type != "BPE") {
    return absl::UnimplementedError(absl::StrFormat(
        "%s \"%s\" is not supported", model.PathOf("type"), type));
  }
  RETURN_IF_ERROR(model.RefuseOthers(
      {"type", "dropout", "unk_token", "continuing_subword_prefix",
       "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
       "vocab", "merges"}));
  for (const std::string_view key :
       {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::string affix, model.String(key, ""));
    if (affix.empty()) continue;
    return absl::UnimplementedError(absl::StrFormat(
        "%s \"%s\" is not supported", model.PathOf(key), affix));
  }
  const ordered_json* const dropout = model.Find("dropout");
  if (dropout != nullptr && *dropout != 0.0) {
    return absl::UnimplementedError(
        absl::StrCat(model.PathOf("dropout"), " is not supported"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TokenModel>> ReadModel(
    const JsonReader& model, const HfVocabulary& vocabulary, bool byte_level) {
  BpeOptions options = {.byte_level = byte_level};
  ASSIGN_OR_RETURN(options.ignore_merges, model.Bool("ignore_merges", false));
  ASSIGN_OR_RETURN(options.byte_fallback, model.Bool("byte_fallback", false));
  ASSIGN_OR_RETURN(options.fuse_unk, model.Bool("fuse_unk", false));
  ASSIGN_OR_RETURN(const std::string unk, model.String("unk_token", ""));
  const auto& ids = vocabulary.model_ids();
  if (const auto it = ids.find(unk); it != ids.end()) {
    options.unk_id = it->second;
  } else if (!unk.empty()) {
    return absl::DataLossError(absl::StrFormat("%s %s is not in the vocabulary",
                                               model.PathOf("unk_token"),
                                               Quote(unk)));
  }
  ASSIGN_OR_RETURN(const BpePieces pieces, ReadPieces(model, vocabulary));
  absl::StatusOr<std::unique_ptr<BpeModel>> made =
      BpeModel::Create(pieces, options);
  if (!made.ok()) {
    return absl::Status(
        made.status().code(),
        absl::StrCat(model.path(), ": ", made.status().message()));
  }
  return *std::move(made);
}

// The id of a special token that tokenizer_config.json names by its text.
absl::StatusOr<std::optional<int32_t>> ReadNamedId(
    const JsonReader& config, std::string_view key,
    const HfVocabulary& vocabulary) {
  const ordered_json* const token = config.Find(key);
  if (token == nullptr) return std::nullopt;
  const std::optional<std::string> content = TokenContent(*token);
  if (!content) {
    return config.Mismatch(key, *token, "text or an object with content");
  }
  const std::optional<int32_t> id = vocabulary.Find(*content);
  if (!id) {
    return absl::DataLossError(absl::StrFormat(
        "%s %s is not in the vocabulary", config.PathOf(key), Quote(*content)));
  }
  return id;
}

// An id or a list of ids. Those that the tokenizer does not have (a leftover
// of a larger model's config) can never be generated and are left out.
absl::StatusOr<std::vector<int32_t>> ReadConfigIds(const JsonReader& config,
                                                   std::string_view key,
                                                   int64_t vocab_size) {
  std::vector<int32_t> ids;
  const ordered_json* const value = config.Find(key);
  if (value == nullptr) return ids;
  const ordered_json list =
      value->is_array() ? *value : ordered_json::array({*value});
  for (const ordered_json& id : list) {
    if (!id.is_number_integer()) {
      return config.Mismatch(key, id, "an id or a list of ids");
    }
    const auto number = id.get<int64_t>();
    if (number < 0 || number >= vocab_size) continue;
    ids.push_back(static_cast<int32_t>(number));
  }
  return ids;
}

void AddNew(const std::vector<int32_t>& more, std::vector<int32_t>* ids) {
  for (const int32_t id : more) {
    if (std::find(ids->begin(), ids->end(), id) == ids->end()) {
      ids->push_back(id);
    }
  }
}

// The files of a folder; those that are absent are empty objects.
struct Folder {
  JsonReader tokenizer_config;
  JsonReader config;
  JsonReader generation_config;
};

absl::Status SetSpecialIds(const Folder& folder, const HfVocabulary& vocabulary,
                           TokenizerParts* parts) {
  const int64_t size = vocabulary.size();
  ASSIGN_OR_RETURN(parts->bos_token_id, ReadNamedId(folder.tokenizer_config,
                                                    "bos_token", vocabulary));
  if (!parts->bos_token_id) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> bos,
                     ReadConfigIds(folder.config, "bos_token_id", size));
    if (!bos.empty()) parts->bos_token_id = bos.front();
  }
  for (const JsonReader* config : {&folder.config, &folder.generation_config}) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ends,
                     ReadConfigIds(*config, "eos_token_id", size));
    AddNew(ends, &parts->end_token_ids);
  }
  ASSIGN_OR_RETURN(
      const std::optional<int32_t> eos,
      ReadNamedId(folder.tokenizer_config, "eos_token", vocabulary));
  if (eos) AddNew({*eos}, &parts->end_token_ids);
  return absl::OkStatus();
}

absl::Status SetTemplate(const JsonReader& file, const HfVocabulary& vocabulary,
                         TokenizerParts* parts) {
  ASSIGN_OR_RETURN(const HfTemplate around, ReadPostProcessor(file));
  const std::string path = file.PathOf("post_processor");
  for (const int64_t id : around.prefix) {
    RETURN_IF_ERROR(CheckTokenId(path, id, vocabulary.size()));
    parts->prefix_ids.push_back(static_cast<int32_t>(id));
  }
  for (const int64_t id : around.suffix) {
    RETURN_IF_ERROR(CheckTokenId(path, id, vocabulary.size()));
    parts->suffix_ids.push_back(static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

// BOS and EOS of the classes that ignore the template.
absl::Status SetClassTemplate(const JsonReader& config,
                              const HfVocabulary& vocabulary,
                              TokenizerParts* parts) {
  ASSIGN_OR_RETURN(const std::string name,
                   config.String("tokenizer_class", ""));
  const TokenizerClass* const known = FindClass(name);
  if (known == nullptr) return absl::OkStatus();
  struct Side {
    std::string_view flag;
    bool absent;
    std::string_view key;
    std::string_view text;
    std::vector<int32_t>* ids;
  };
  const Side sides[] = {
      {"add_bos_token", known->add_bos, "bos_token", known->bos,
       &parts->prefix_ids},
      {"add_eos_token", false, "eos_token", known->eos, &parts->suffix_ids}};
  for (const Side& side : sides) {
    ASSIGN_OR_RETURN(const bool adds, config.Bool(side.flag, side.absent));
    side.ids->clear();
    if (!adds) continue;
    ASSIGN_OR_RETURN(std::optional<int32_t> id,
                     ReadNamedId(config, side.key, vocabulary));
    if (!id) id = vocabulary.Find(side.text);
    if (!id) {
      return absl::DataLossError(
          absl::StrFormat("%s is true for %s, but there is no %s",
                          config.PathOf(side.flag), name, side.key));
    }
    side.ids->push_back(*id);
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenizerParts> MakeParts(const JsonReader& file,
                                         const Folder& folder) {
  RETURN_IF_ERROR(file.RefuseOthers(
      {"version", "truncation", "padding", "added_tokens", "normalizer",
       "pre_tokenizer", "post_processor", "decoder", "model"}));
  ASSIGN_OR_RETURN(const JsonReader model, file.Object("model"));
  RETURN_IF_ERROR(RefuseUnsupported(model));
  ASSIGN_OR_RETURN(
      const HfVocabulary vocabulary,
      HfVocabulary::Create(file, model, &folder.tokenizer_config.object()));
  TokenizerParts parts;
  ASSIGN_OR_RETURN(auto normalizer, ReadNormalizer(file));
  parts.normalizer = Normalizer(std::move(normalizer));
  std::optional<bool> prefix_space;
  if (folder.tokenizer_config.Find("add_prefix_space") != nullptr) {
    ASSIGN_OR_RETURN(prefix_space,
                     folder.tokenizer_config.Bool("add_prefix_space", false));
  }
  ASSIGN_OR_RETURN(HfPreTokenizer pre, ReadPreTokenizer(file, prefix_space));
  parts.pre_tokenizer = PreTokenizer(std::move(pre.steps));
  ASSIGN_OR_RETURN(parts.model, ReadModel(model, vocabulary, pre.byte_level));
  ASSIGN_OR_RETURN(HfDecoder decoder, ReadDecoder(file));
  if (!decoder.present && !pre.byte_level) {
    return absl::UnimplementedError(
        "tokenizer.decoder: none (tokens joined by spaces) is not supported");
  }
  // Without a decoder, the pre-tokenizer tells that pieces are bytes.
  if (!decoder.present) decoder.byte_level = true;
  parts.strips_leading_space = decoder.strips_leading_space;
  ASSIGN_OR_RETURN(const std::string unk, model.String("unk_token", ""));
  parts.vocabulary = Vocabulary(vocabulary.Decode(decoder, unk));
  parts.added_tokens = vocabulary.added_tokens();
  RETURN_IF_ERROR(SetTemplate(file, vocabulary, &parts));
  RETURN_IF_ERROR(
      SetClassTemplate(folder.tokenizer_config, vocabulary, &parts));
  RETURN_IF_ERROR(SetSpecialIds(folder, vocabulary, &parts));
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> CreateTokenizerFromHuggingFace(
    const ordered_json& metadata) {
  static const ordered_json* const kNone =
      new ordered_json(ordered_json::object());
  const JsonReader top(metadata, "");
  if (top.Find("tokenizer") == nullptr) return nullptr;
  ASSIGN_OR_RETURN(const JsonReader file, top.Object("tokenizer"));
  const auto reader = [&](std::string_view key) {
    const ordered_json* const found = top.Find(key);
    return JsonReader(found == nullptr ? *kNone : *found, std::string(key));
  };
  const Folder folder = {reader("tokenizer_config"), reader("config"),
                         reader("generation_config")};
  ASSIGN_OR_RETURN(TokenizerParts parts, MakeParts(file, folder));
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace headrace
