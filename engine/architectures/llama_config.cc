#include "engine/architectures/llama_config.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/rope/parse_gguf.h"
#include "engine/rope/parse_hf.h"
#include "engine/tensor/block_formats.h"
#include "engine/weights/metadata_reader.h"

namespace headrace {
namespace {

// Far above any model of the family; what lies beyond is a broken file.
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxPositions = int64_t{1} << 30;
constexpr int64_t kMaxVocabulary = int64_t{1} << 24;
// What transformers' MistralConfig takes where the key is absent; null is none.
constexpr int64_t kMistralSlidingWindow = 4096;

// Rows of the embedding matrix: what the model really has.
absl::StatusOr<int64_t> EmbeddingRows(const WeightSource& source,
                                      const std::string& name) {
  const StoredTensor* tensor = source.Find(name);
  if (tensor == nullptr) {
    return absl::DataLossError(absl::StrCat("tensor ", name, " is missing"));
  }
  return tensor->view.shape.front();
}

void TakeRope(ParsedRope rope, LlamaConfig& out) {
  out.config.rope = std::move(rope.params);
  out.warnings.insert(out.warnings.end(), rope.warnings.begin(),
                      rope.warnings.end());
}

absl::StatusOr<int64_t> Required(const MetadataReader& keys,
                                 const std::string& key,
                                 std::optional<int64_t> value) {
  if (!value.has_value()) {
    return absl::DataLossError(absl::StrCat(keys.FullKey(key), " is missing"));
  }
  return *value;
}

absl::Status ReadGguf(const WeightSource& source, LlamaConfig& out) {
  const nlohmann::ordered_json& kvs = source.metadata();
  const MetadataReader keys(kvs, "llama.");
  ModelConfig& config = out.config;
  ASSIGN_OR_RETURN(config.num_hidden_layers,
                   keys.Int("block_count", 1, kMaxLayers));
  const int64_t layers = config.num_hidden_layers;
  ASSIGN_OR_RETURN(config.hidden_size,
                   keys.Int("embedding_length", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.max_position_embeddings,
                   keys.Int("context_length", 1, kMaxPositions));
  ASSIGN_OR_RETURN(const auto ffn, keys.PerLayerInt("feed_forward_length",
                                                    layers, 1, kMaxWidth));
  ASSIGN_OR_RETURN(const auto heads, keys.PerLayerInt("attention.head_count",
                                                      layers, 1, kMaxWidth));
  ASSIGN_OR_RETURN(
      const auto kv_heads,
      keys.PerLayerInt("attention.head_count_kv", layers, 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.intermediate_size,
                   Required(keys, "feed_forward_length", ffn));
  ASSIGN_OR_RETURN(config.num_attention_heads,
                   Required(keys, "attention.head_count", heads));
  config.num_key_value_heads = kv_heads.value_or(config.num_attention_heads);
  ASSIGN_OR_RETURN(const auto head_dim,
                   keys.OptionalInt("attention.key_length", 1, kMaxWidth));
  config.head_dim =
      head_dim.value_or(config.hidden_size / config.num_attention_heads);
  ASSIGN_OR_RETURN(config.rms_norm_eps,
                   keys.PositiveDouble("attention.layer_norm_rms_epsilon"));
  ASSIGN_OR_RETURN(
      config.sliding_window,
      keys.OptionalInt("attention.sliding_window", 1, kMaxPositions));
  ASSIGN_OR_RETURN(config.vocab_size,
                   EmbeddingRows(source, "token_embd.weight"));
  std::vector<float> divisors;
  if (const StoredTensor* stored = source.Find("rope_freqs.weight")) {
    divisors.resize(static_cast<size_t>(NumElements(stored->view.shape)));
    DequantizeRow(stored->view.dtype, stored->view.data, divisors);
  }
  ASSIGN_OR_RETURN(ParsedRope rope,
                   RopeParamsFromGguf(kvs, "llama", {.freqs = divisors}));
  TakeRope(std::move(rope), out);
  config.rope_pairing = RopePairing::kInterleaved;
  const MetadataReader general(kvs, "general.");
  ASSIGN_OR_RETURN(const auto name, general.OptionalString("name"));
  config.name = name.value_or("");
  return absl::OkStatus();
}

// Settings that change the computation and are not built: refused by name.
absl::Status RefuseUnsupported(const MetadataReader& config) {
  ASSIGN_OR_RETURN(const auto hidden_act, config.OptionalString("hidden_act"));
  const std::string activation = hidden_act.value_or("silu");
  if (activation != "silu") {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json: hidden_act is ", activation,
                     "; the Llama family is served with silu"));
  }
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    ASSIGN_OR_RETURN(const auto bias, config.OptionalBool(key));
    if (bias.value_or(false)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "config.json: ", key, " is true; biases are not supported"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadHuggingFace(const WeightSource& source, LlamaConfig& out) {
  const nlohmann::ordered_json& json = source.metadata().at("config");
  const MetadataReader keys(json, "");
  RETURN_IF_ERROR(RefuseUnsupported(keys));
  ModelConfig& config = out.config;
  ASSIGN_OR_RETURN(config.num_hidden_layers,
                   keys.Int("num_hidden_layers", 1, kMaxLayers));
  ASSIGN_OR_RETURN(config.hidden_size, keys.Int("hidden_size", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.intermediate_size,
                   keys.Int("intermediate_size", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.num_attention_heads,
                   keys.Int("num_attention_heads", 1, kMaxWidth));
  ASSIGN_OR_RETURN(const auto kv_heads,
                   keys.OptionalInt("num_key_value_heads", 1, kMaxWidth));
  config.num_key_value_heads = kv_heads.value_or(config.num_attention_heads);
  ASSIGN_OR_RETURN(const auto head_dim,
                   keys.OptionalInt("head_dim", 1, kMaxWidth));
  config.head_dim =
      head_dim.value_or(config.hidden_size / config.num_attention_heads);
  ASSIGN_OR_RETURN(config.max_position_embeddings,
                   keys.Int("max_position_embeddings", 1, kMaxPositions));
  ASSIGN_OR_RETURN(config.vocab_size,
                   keys.Int("vocab_size", 1, kMaxVocabulary));
  ASSIGN_OR_RETURN(config.rms_norm_eps, keys.PositiveDouble("rms_norm_eps"));
  ASSIGN_OR_RETURN(config.sliding_window,
                   keys.OptionalInt("sliding_window", 1, kMaxPositions));
  ASSIGN_OR_RETURN(const auto model_type, keys.OptionalString("model_type"));
  if (model_type == "mistral" && !json.contains("sliding_window")) {
    config.sliding_window = kMistralSlidingWindow;
  }
  ASSIGN_OR_RETURN(const auto tied, keys.OptionalBool("tie_word_embeddings"));
  out.tie_word_embeddings = tied.value_or(false);
  ASSIGN_OR_RETURN(ParsedRope rope, RopeParamsFromHfConfig(json));
  TakeRope(std::move(rope), out);
  config.rope_pairing = RopePairing::kHalfSplit;
  ASSIGN_OR_RETURN(const auto name, keys.OptionalString("_name_or_path"));
  config.name = name.value_or("");
  return absl::OkStatus();
}

// The format has no keys for these: run.c fixes both.
constexpr double kLlama2cNormEps = 1e-5;
constexpr double kLlama2cRopeTheta = 10000.0;

absl::Status ReadLlama2c(const WeightSource& source, LlamaConfig& out) {
  const MetadataReader keys(source.metadata(), "");
  ModelConfig& config = out.config;
  ASSIGN_OR_RETURN(config.hidden_size, keys.Int("dim", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.intermediate_size,
                   keys.Int("hidden_dim", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.num_hidden_layers,
                   keys.Int("n_layers", 1, kMaxLayers));
  ASSIGN_OR_RETURN(config.num_attention_heads,
                   keys.Int("n_heads", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.num_key_value_heads,
                   keys.Int("n_kv_heads", 1, kMaxWidth));
  ASSIGN_OR_RETURN(config.max_position_embeddings,
                   keys.Int("seq_len", 1, kMaxPositions));
  ASSIGN_OR_RETURN(config.vocab_size,
                   EmbeddingRows(source, "token_embd.weight"));
  config.head_dim = config.hidden_size / config.num_attention_heads;
  config.rms_norm_eps = kLlama2cNormEps;
  config.rope =
      RopeParams{.rope_theta = kLlama2cRopeTheta,
                 .head_dim = config.head_dim,
                 .rotary_dim = config.head_dim,
                 .max_position_embeddings = config.max_position_embeddings};
  config.rope_pairing = RopePairing::kInterleaved;
  return absl::OkStatus();
}

absl::Status CheckHeads(const ModelConfig& config) {
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    return absl::DataLossError(absl::StrCat(
        config.num_attention_heads, " attention heads do not divide by ",
        config.num_key_value_heads, " key-value heads"));
  }
  if (config.head_dim < 1) {
    return absl::DataLossError(
        absl::StrCat("head_dim is 0: hidden_size ", config.hidden_size,
                     " over ", config.num_attention_heads, " attention heads"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LlamaConfig> ReadLlamaConfig(const WeightSource& source) {
  LlamaConfig out;
  out.config.architecture = "llama";
  switch (source.format()) {
    case WeightFormat::kGguf:
      RETURN_IF_ERROR(ReadGguf(source, out));
      break;
    case WeightFormat::kSafetensors:
      RETURN_IF_ERROR(ReadHuggingFace(source, out));
      break;
    case WeightFormat::kLlama2c:
      RETURN_IF_ERROR(ReadLlama2c(source, out));
      break;
  }
  RETURN_IF_ERROR(CheckHeads(out.config));
  return out;
}

}  // namespace headrace
