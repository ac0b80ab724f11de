#include "tests/testing/hugging_face_folder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tensor/dtype.h"
#include "tests/testing/block_encoder.h"
#include "tests/testing/files.h"
#include "tests/testing/safetensors_writer.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

std::vector<SafetensorsEntry> Encode(std::span<const FloatTensor> tensors,
                                     DType dtype) {
  std::vector<SafetensorsEntry> entries;
  for (const FloatTensor& tensor : tensors) {
    entries.push_back({.name = tensor.name,
                       .dtype = std::string(LayoutOf(dtype).name),
                       .shape = tensor.shape,
                       .bytes = EncodeBlocks(dtype, tensor.values)});
  }
  return entries;
}

void WriteShards(const TestModel& model, const std::string& folder,
                 const FolderOptions& options) {
  const size_t tensors = model.tensors.size();
  int64_t total_size = 0;
  Json weight_map = Json::object();
  for (size_t shard = 0; shard < options.num_shards; ++shard) {
    const std::string name =
        ShardName("model", shard, options.num_shards, ".safetensors");
    const size_t begin = tensors * shard / options.num_shards;
    const size_t end = tensors * (shard + 1) / options.num_shards;
    const std::vector<SafetensorsEntry> entries = Encode(
        std::span(model.tensors).subspan(begin, end - begin), options.dtype);
    for (const SafetensorsEntry& entry : entries) {
      weight_map[entry.name] = name;
      total_size += static_cast<int64_t>(entry.bytes.size());
    }
    WriteFile(absl::StrCat(folder, "/", name), SerializeSafetensors(entries));
  }
  const Json index = {{"metadata", {{"total_size", total_size}}},
                      {"weight_map", weight_map}};
  WriteFile(absl::StrCat(folder, "/model.safetensors.index.json"),
            index.dump(2));
}

void WriteWeights(const TestModel& model, const std::string& folder,
                  const FolderOptions& options) {
  const std::string single = absl::StrCat(folder, "/model.safetensors");
  if (options.num_shards > 1) {
    WriteShards(model, folder, options);
  } else {
    WriteFile(single,
              SerializeSafetensors(Encode(model.tensors, options.dtype)));
  }
  if (options.stray_model_file) {
    TestModel zeros = model;
    for (FloatTensor& tensor : zeros.tensors) {
      std::fill(tensor.values.begin(), tensor.values.end(), 0.0f);
    }
    WriteFile(single,
              SerializeSafetensors(Encode(zeros.tensors, options.dtype)));
  }
}

// Every way to cut a piece into two pieces is a merge; the merges of the piece
// with the highest score come first, as SentencePiece would do them.
Json MergesFromScores(const TestVocabulary& vocabulary) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    ids.emplace(vocabulary.pieces[id], id);
  }
  using Merge = std::tuple<float, size_t, size_t>;  // -score, left, right
  std::vector<Merge> merges;
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    if (vocabulary.types[id] != PieceType::kNormal) continue;
    const std::string_view piece = vocabulary.pieces[id];
    for (size_t cut = 1; cut < piece.size(); ++cut) {
      const auto left = ids.find(piece.substr(0, cut));
      const auto right = ids.find(piece.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      merges.emplace_back(-vocabulary.scores[id], left->second, right->second);
    }
  }
  std::sort(merges.begin(), merges.end());
  Json out = Json::array();
  for (const auto& [score, left, right] : merges) {
    out.push_back(
        absl::StrCat(vocabulary.pieces[left], " ", vocabulary.pieces[right]));
  }
  return out;
}

Json AddedTokens(const TestVocabulary& vocabulary) {
  Json added = Json::array();
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    if (vocabulary.types[id] != PieceType::kControl &&
        vocabulary.types[id] != PieceType::kUnknown) {
      continue;
    }
    added.push_back({{"id", id},
                     {"content", vocabulary.pieces[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return added;
}

void SetByteLevelPipeline(const TestVocabulary& vocabulary, Json& tokenizer) {
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  tokenizer["normalizer"] = nullptr;
  tokenizer["pre_tokenizer"] = byte_level;
  if (vocabulary.pre_tokenizer == "smollm") {
    const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
    tokenizer["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", Json::array({digits, byte_level})}};
  }
  tokenizer["decoder"] = byte_level;
}

void SetSentencePiecePipeline(Json& tokenizer) {
  const std::string space = "\xE2\x96\x81";  // U+2581
  tokenizer["normalizer"] = {{"type", "Sequence"},
                             {"normalizers",
                              {{{"type", "Prepend"}, {"prepend", space}},
                               {{"type", "Replace"},
                                {"pattern", {{"String", " "}}},
                                {"content", space}}}}};
  tokenizer["pre_tokenizer"] = nullptr;
  tokenizer["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Replace"},
         {"pattern", {{"String", space}}},
         {"content", " "}},
        {{"type", "ByteFallback"}},
        {{"type", "Fuse"}},
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
}

// Puts BOS before every text.
Json BosPostProcessor(const TestVocabulary& vocabulary) {
  const std::string& bos = vocabulary.pieces[vocabulary.bos_token_id];
  const Json special = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  return {{"type", "TemplateProcessing"},
          {"single", Json::array({special, text})},
          {"pair", Json::array({special, text, second})},
          {"special_tokens",
           {{bos,
             {{"id", bos},
              {"ids", Json::array({vocabulary.bos_token_id})},
              {"tokens", Json::array({bos})}}}}}};
}

Json TokenizerConfig(const TestVocabulary& vocabulary) {
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"add_bos_token", vocabulary.add_bos_token},
                 {"bos_token", vocabulary.pieces[vocabulary.bos_token_id]},
                 {"eos_token", vocabulary.pieces[vocabulary.eos_token_id]},
                 {"clean_up_tokenization_spaces", false}};
  if (!vocabulary.chat_template.empty()) {
    config["chat_template"] = vocabulary.chat_template;
  }
  return config;
}

}  // namespace

Json TokenizerJson(const TestVocabulary& vocabulary) {
  const bool sentence_piece = vocabulary.kind == VocabularyKind::kSentencePiece;
  Json tokenizer = {{"version", "1.0"},
                    {"truncation", nullptr},
                    {"padding", nullptr},
                    {"added_tokens", AddedTokens(vocabulary)}};
  if (sentence_piece) {
    SetSentencePiecePipeline(tokenizer);
  } else {
    SetByteLevelPipeline(vocabulary, tokenizer);
  }
  tokenizer["post_processor"] =
      vocabulary.add_bos_token ? BosPostProcessor(vocabulary) : Json(nullptr);
  Json pieces = Json::object();
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    pieces[vocabulary.pieces[id]] = id;
  }
  tokenizer["model"] = {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", nullptr},
                        {"continuing_subword_prefix", nullptr},
                        {"end_of_word_suffix", nullptr},
                        {"fuse_unk", sentence_piece},
                        {"byte_fallback", sentence_piece},
                        {"ignore_merges", false},
                        {"vocab", pieces},
                        {"merges", sentence_piece ? MergesFromScores(vocabulary)
                                                  : Json::array()}};
  return tokenizer;
}

void WriteHuggingFaceFolder(const TestModel& model, const std::string& folder,
                            const FolderOptions& options) {
  Json config = model.config;
  for (const auto& [key, value] : options.config_set.items()) {
    config[key] = value;
  }
  for (const std::string& key : options.config_remove) config.erase(key);
  WriteFile(absl::StrCat(folder, "/config.json"), config.dump(2));
  const Json generation = {{"bos_token_id", model.vocabulary.bos_token_id},
                           {"eos_token_id", model.vocabulary.eos_token_id}};
  WriteFile(absl::StrCat(folder, "/generation_config.json"),
            generation.dump(2));
  WriteWeights(model, folder, options);
  if (!options.has_tokenizer) return;
  WriteFile(absl::StrCat(folder, "/tokenizer.json"),
            TokenizerJson(model.vocabulary).dump());
  WriteFile(absl::StrCat(folder, "/tokenizer_config.json"),
            TokenizerConfig(model.vocabulary).dump(2));
}

}  // namespace headrace
