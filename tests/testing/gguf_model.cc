#include "tests/testing/gguf_model.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "absl/strings/str_format.h"
#include "engine/tensor/dtype.h"
#include "tests/testing/files.h"
#include "tests/testing/safetensors_writer.h"

namespace headrace {
namespace {

struct NamePair {
  std::string_view hugging_face;
  std::string_view gguf;
};

constexpr NamePair kWholeModelNames[] = {
    {"model.embed_tokens.", "token_embd."},
    {"model.norm.", "output_norm."},
    {"lm_head.", "output."},
};
constexpr NamePair kLayerPrefix = {"model.layers.", "blk."};
constexpr NamePair kLayerNames[] = {
    {"input_layernorm.", "attn_norm."},
    {"post_attention_layernorm.", "ffn_norm."},
    {"self_attn.q_proj.", "attn_q."},
    {"self_attn.k_proj.", "attn_k."},
    {"self_attn.v_proj.", "attn_v."},
    {"self_attn.o_proj.", "attn_output."},
    {"self_attn.q_norm.", "attn_q_norm."},
    {"self_attn.k_norm.", "attn_k_norm."},
    {"mlp.gate_proj.", "ffn_gate."},
    {"mlp.up_proj.", "ffn_up."},
    {"mlp.down_proj.", "ffn_down."},
};

// A tensor name from one column of the tables to the other.
std::string Rename(std::string_view name, std::string_view NamePair::* from,
                   std::string_view NamePair::* to) {
  for (const NamePair& pair : kWholeModelNames) {
    if (!name.starts_with(pair.*from)) continue;
    return absl::StrFormat("%s%s", pair.*to, name.substr((pair.*from).size()));
  }
  const std::string_view prefix = kLayerPrefix.*from;
  CHECK(name.starts_with(prefix)) << "no other name for " << name;
  const std::string_view layer =
      name.substr(prefix.size(), name.find('.', prefix.size()) - prefix.size());
  const std::string_view rest = name.substr(prefix.size() + layer.size() + 1);
  for (const NamePair& pair : kLayerNames) {
    if (!rest.starts_with(pair.*from)) continue;
    return absl::StrFormat("%s%s.%s%s", kLayerPrefix.*to, layer, pair.*to,
                           rest.substr((pair.*from).size()));
  }
  LOG(FATAL) << "no other name for " << name;
}

std::string Architecture(const TestModel& model) {
  const std::string type = model.config["model_type"];
  return type == "mistral" ? "llama" : type;
}

// Rows of each head from half-split to interleaved order: row r of the file is
// row r / 2 + (r % 2) * head_dim / 2 (llama.cpp's convert_hf_to_gguf.py,
// LlamaModel.permute).
std::vector<float> Interleave(const FloatTensor& tensor, int64_t head_dim) {
  const int64_t rows = tensor.shape[0];
  const int64_t columns = static_cast<int64_t>(tensor.values.size()) / rows;
  std::vector<float> out;
  out.reserve(tensor.values.size());
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t r = row % head_dim;
    const int64_t source = row - r + r / 2 + (r % 2) * head_dim / 2;
    const auto begin = tensor.values.begin() + source * columns;
    out.insert(out.end(), begin, begin + columns);
  }
  return out;
}

bool IsQueryOrKey(std::string_view name) {
  return name.find(".q_proj.") != name.npos ||
         name.find(".k_proj.") != name.npos;
}

DType StoredDtype(const FloatTensor& tensor, DType wanted) {
  if (tensor.shape.size() < 2) return DType::kF32;
  const bool whole_blocks =
      tensor.shape.back() % LayoutOf(wanted).elements == 0;
  return whole_blocks ? wanted : DType::kF32;
}

void AddTensor(const TestModel& model, const FloatTensor& tensor, DType dtype,
               GgufWriter& writer) {
  const bool permute =
      Architecture(model) == "llama" && IsQueryOrKey(tensor.name);
  writer.AddTensor(
      GgufTensorName(tensor.name), StoredDtype(tensor, dtype), tensor.shape,
      permute ? Interleave(tensor, model.config["head_dim"]) : tensor.values);
}

void SetModelKeys(const TestModel& model, GgufWriter& writer) {
  const std::string arch = Architecture(model);
  const nlohmann::ordered_json& config = model.config;
  const auto key = [&arch](std::string_view name) {
    return absl::StrFormat("%s.%s", arch, name);
  };
  const auto set_u32 = [&](std::string_view name, std::string_view field) {
    writer.Set(key(name), config[field].get<uint32_t>());
  };
  writer.Set("general.architecture", arch);
  writer.Set("general.name", config.value("_name_or_path", "tiny"));
  set_u32("context_length", "max_position_embeddings");
  set_u32("embedding_length", "hidden_size");
  set_u32("block_count", "num_hidden_layers");
  set_u32("feed_forward_length", "intermediate_size");
  set_u32("attention.head_count", "num_attention_heads");
  set_u32("attention.head_count_kv", "num_key_value_heads");
  set_u32("attention.key_length", "head_dim");
  set_u32("attention.value_length", "head_dim");
  writer.Set(key("attention.layer_norm_rms_epsilon"),
             config["rms_norm_eps"].get<float>());
  set_u32("rope.dimension_count", "head_dim");
  writer.Set(key("rope.freq_base"), config["rope_theta"].get<float>());
  set_u32("vocab_size", "vocab_size");
}

void SetTokenizerKeys(const TestVocabulary& vocabulary, GgufWriter& writer) {
  switch (vocabulary.kind) {
    case VocabularyKind::kByteLevelBpe:
      writer.Set("tokenizer.ggml.model", "gpt2");
      writer.Set("tokenizer.ggml.pre", vocabulary.pre_tokenizer);
      writer.Set("tokenizer.ggml.merges", vocabulary.merges);
      break;
    case VocabularyKind::kSentencePiece:
      writer.Set("tokenizer.ggml.model", "llama");
      writer.Set("tokenizer.ggml.scores", vocabulary.scores);
      break;
  }
  std::vector<int32_t> types;
  for (const PieceType type : vocabulary.types) {
    types.push_back(static_cast<int32_t>(type));
  }
  writer.Set("tokenizer.ggml.tokens", vocabulary.pieces);
  writer.Set("tokenizer.ggml.token_type", types);
  writer.Set("tokenizer.ggml.bos_token_id",
             static_cast<uint32_t>(vocabulary.bos_token_id));
  writer.Set("tokenizer.ggml.eos_token_id",
             static_cast<uint32_t>(vocabulary.eos_token_id));
  writer.Set("tokenizer.ggml.add_bos_token", vocabulary.add_bos_token);
  if (!vocabulary.chat_template.empty()) {
    writer.Set("tokenizer.chat_template", vocabulary.chat_template);
  }
}

// The first shard of a split set holds all keys, the others only split.*.
GgufWriter ShardWriter(const TestModel& model, size_t shard,
                       const GgufModelOptions& options) {
  GgufWriter writer;
  if (shard == 0) {
    SetModelKeys(model, writer);
    SetTokenizerKeys(model.vocabulary, writer);
    for (const auto& [key, value] : options.set) writer.Set(key, value);
    for (const std::string& key : options.remove) writer.Remove(key);
  }
  if (options.num_shards > 1) {
    writer.Set("split.no", static_cast<uint16_t>(shard));
    writer.Set("split.count", static_cast<uint16_t>(options.num_shards));
    writer.Set("split.tensors.count",
               static_cast<int32_t>(model.tensors.size()));
  }
  return writer;
}

}  // namespace

std::string GgufTensorName(const std::string& hugging_face_name) {
  return Rename(hugging_face_name, &NamePair::hugging_face, &NamePair::gguf);
}

std::string HuggingFaceTensorName(const std::string& gguf_name) {
  return Rename(gguf_name, &NamePair::gguf, &NamePair::hugging_face);
}

std::vector<std::string> WriteGgufModel(const TestModel& model,
                                        const std::string& path,
                                        const GgufModelOptions& options) {
  const size_t shards = options.num_shards;
  const size_t tensors = model.tensors.size();
  std::vector<std::string> paths;
  for (size_t shard = 0; shard < shards; ++shard) {
    GgufWriter writer = ShardWriter(model, shard, options);
    const size_t end = tensors * (shard + 1) / shards;
    for (size_t i = tensors * shard / shards; i < end; ++i) {
      AddTensor(model, model.tensors[i], options.dtype, writer);
    }
    paths.push_back(shards == 1 ? path
                                : ShardName(path, shard, shards, ".gguf"));
    WriteFile(paths.back(), writer.Serialize());
  }
  return paths;
}

}  // namespace headrace
