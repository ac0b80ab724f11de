#include "tests/testing/rewrite_model.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "absl/strings/str_replace.h"
#include "engine/tensor/block_formats.h"
#include "engine/tensor/tensor_view.h"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// The file's interleaved rows of each head, half-split again: row r of the
// result is row 2 r of the head, or 2 (r - head_dim / 2) + 1.
std::vector<float> HalfSplit(const std::vector<float>& values, int64_t columns,
                             int64_t head_dim) {
  const int64_t rows = static_cast<int64_t>(values.size()) / columns;
  std::vector<float> out;
  out.reserve(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t r = row % head_dim;
    const int64_t half = head_dim / 2;
    const int64_t source = row - r + (r < half ? 2 * r : 2 * (r - half) + 1);
    const auto begin = values.begin() + source * columns;
    out.insert(out.end(), begin, begin + columns);
  }
  return out;
}

std::vector<FloatTensor> ReadTensors(const WeightSource& source,
                                     int64_t head_dim) {
  std::vector<FloatTensor> tensors;
  for (const StoredTensor& stored : source.tensors()) {
    FloatTensor tensor{.name = HuggingFaceTensorName(stored.name),
                       .shape = stored.view.shape};
    tensor.values.resize(NumElements(tensor.shape));
    DequantizeRow(stored.view.dtype, stored.view.data, tensor.values);
    if (tensor.name.find(".q_proj.") != std::string::npos ||
        tensor.name.find(".k_proj.") != std::string::npos) {
      const int64_t columns =
          tensor.shape.size() == 1 ? 1 : tensor.shape.back();
      tensor.values = HalfSplit(tensor.values, columns, head_dim);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// What every Llama config has, once its numbers are filled in.
Json LlamaConfig(Json numbers, bool tied) {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", tied},
                 {"torch_dtype", "float32"}};
  config.update(numbers);
  return config;
}

Json ConfigOfLlama2c(const WeightSource& source) {
  const Json& header = source.metadata();
  const int64_t head_dim =
      header["dim"].get<int64_t>() / header["n_heads"].get<int64_t>();
  return LlamaConfig({{"hidden_size", header["dim"]},
                      {"intermediate_size", header["hidden_dim"]},
                      {"num_hidden_layers", header["n_layers"]},
                      {"num_attention_heads", header["n_heads"]},
                      {"num_key_value_heads", header["n_kv_heads"]},
                      {"head_dim", head_dim},
                      {"max_position_embeddings", header["seq_len"]},
                      {"rms_norm_eps", 1e-5},   // run.c
                      {"rope_theta", 10000.0},  // run.c
                      {"vocab_size", header["vocab_size"]},
                      {"bos_token_id", 1},
                      {"eos_token_id", 2}},
                     header["shared_classifier"]);
}

Json ConfigOfGguf(const WeightSource& source) {
  const Json& keys = source.metadata();
  CHECK_EQ(keys["general.architecture"].get<std::string>(), "llama");
  const int64_t hidden_size = keys["llama.embedding_length"];
  const int64_t heads = keys["llama.attention.head_count"];
  return LlamaConfig(
      {{"hidden_size", hidden_size},
       {"intermediate_size", keys["llama.feed_forward_length"]},
       {"num_hidden_layers", keys["llama.block_count"]},
       {"num_attention_heads", heads},
       {"num_key_value_heads",
        keys.value("llama.attention.head_count_kv", heads)},
       {"head_dim",
        keys.value("llama.attention.key_length", hidden_size / heads)},
       {"max_position_embeddings", keys["llama.context_length"]},
       {"rms_norm_eps", keys["llama.attention.layer_norm_rms_epsilon"]},
       {"rope_theta", keys.value("llama.rope.freq_base", 10000.0)},
       {"vocab_size", source.Find("token_embd.weight")->view.shape[0]},
       {"bos_token_id", keys["tokenizer.ggml.bos_token_id"]},
       {"eos_token_id", keys["tokenizer.ggml.eos_token_id"]}},
      source.Find("output.weight") == nullptr);
}

std::string Latin1ToBytes(const std::string& utf8) {
  std::string bytes;
  for (size_t i = 0; i < utf8.size(); ++i) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    if (lead < 0x80) {
      bytes += utf8[i];
    } else {
      bytes += static_cast<char>((lead << 6) | (utf8[++i] & 0x3F));
    }
  }
  return bytes;
}

// llama2.c writes SentencePiece pieces with plain spaces, and its three
// special tokens between line feeds (tokenizer.py, export).
TestVocabulary VocabularyOfLlama2c(const Json& tokenizer) {
  TestVocabulary vocabulary{.kind = VocabularyKind::kSentencePiece,
                            .bos_token_id = 1,
                            .eos_token_id = 2,
                            .add_bos_token = true};
  for (size_t id = 0; id < tokenizer["tokens"].size(); ++id) {
    const std::string token = Latin1ToBytes(tokenizer["tokens"][id]);
    const bool byte =
        token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
    vocabulary.pieces.push_back(
        byte ? token : absl::StrReplaceAll(token, {{" ", "\u2581"}}));
    vocabulary.types.push_back(byte ? PieceType::kByte : PieceType::kNormal);
    vocabulary.scores.push_back(tokenizer["scores"][id]);
  }
  const std::pair<std::string_view, PieceType> specials[] = {
      {"<unk>", PieceType::kUnknown},
      {"<s>", PieceType::kControl},
      {"</s>", PieceType::kControl}};
  for (size_t id = 0; id < 3; ++id) {
    vocabulary.pieces[id] = specials[id].first;
    vocabulary.types[id] = specials[id].second;
  }
  return vocabulary;
}

TestVocabulary VocabularyOfGguf(const Json& keys) {
  const bool bpe = keys["tokenizer.ggml.model"] == "gpt2";
  TestVocabulary vocabulary{
      .kind =
          bpe ? VocabularyKind::kByteLevelBpe : VocabularyKind::kSentencePiece,
      .pieces = keys["tokenizer.ggml.tokens"],
      .bos_token_id = keys["tokenizer.ggml.bos_token_id"],
      .eos_token_id = keys["tokenizer.ggml.eos_token_id"],
      .add_bos_token = keys.value("tokenizer.ggml.add_bos_token", !bpe),
      .chat_template = keys.value("tokenizer.chat_template", "")};
  for (const Json& type : keys["tokenizer.ggml.token_type"]) {
    vocabulary.types.push_back(static_cast<PieceType>(type.get<int32_t>()));
  }
  if (bpe) {
    vocabulary.pre_tokenizer = keys["tokenizer.ggml.pre"];
    vocabulary.merges =
        keys["tokenizer.ggml.merges"].get<std::vector<std::string>>();
  } else {
    vocabulary.scores = keys["tokenizer.ggml.scores"].get<std::vector<float>>();
  }
  return vocabulary;
}

GgufValue ToGgufValue(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return value.get<float>();
  if (value.is_number_unsigned() &&
      !std::in_range<int64_t>(value.get<uint64_t>())) {
    return value.get<uint64_t>();
  }
  if (value.is_number_integer()) {
    const auto number = value.get<int64_t>();
    if (std::in_range<uint32_t>(number)) return static_cast<uint32_t>(number);
    if (std::in_range<int32_t>(number)) return static_cast<int32_t>(number);
    return number;
  }
  CHECK(value.is_array());
  if (value.empty() || value[0].is_string()) {
    return value.get<std::vector<std::string>>();
  }
  if (value[0].is_number_float()) return value.get<std::vector<float>>();
  return value.get<std::vector<int32_t>>();
}

}  // namespace

TestModel ReadModel(const WeightSource& source) {
  TestModel model;
  switch (source.format()) {
    case WeightFormat::kLlama2c:
      model.config = ConfigOfLlama2c(source);
      if (source.metadata().contains("tokenizer")) {
        model.vocabulary = VocabularyOfLlama2c(source.metadata()["tokenizer"]);
      }
      break;
    case WeightFormat::kGguf:
      model.config = ConfigOfGguf(source);
      model.vocabulary = VocabularyOfGguf(source.metadata());
      break;
    case WeightFormat::kSafetensors:
      LOG(FATAL) << "safetensors models are in Hugging Face's terms already";
  }
  model.tensors = ReadTensors(source, model.config["head_dim"]);
  return model;
}

void RewriteGguf(const WeightSource& source, const std::string& path,
                 const std::vector<std::pair<std::string, GgufValue>>& set,
                 const std::vector<std::string>& remove) {
  CHECK(source.format() == WeightFormat::kGguf);
  GgufWriter writer;
  for (const auto& [key, value] : source.metadata().items()) {
    writer.Set(key, ToGgufValue(value));
  }
  for (const auto& [key, value] : set) writer.Set(key, value);
  for (const std::string& key : remove) writer.Remove(key);
  for (const StoredTensor& tensor : source.tensors()) {
    writer.AddRawTensor(
        tensor.name, GgmlTypeId(tensor.view.dtype), tensor.view.shape,
        std::string(reinterpret_cast<const char*>(tensor.view.data),
                    static_cast<size_t>(tensor.bytes)));
  }
  WriteFile(path, writer.Serialize());
}

}  // namespace headrace
