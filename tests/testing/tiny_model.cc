#include "tests/testing/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "absl/log/log.h"
#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::string_view kChatTemplate =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{{ message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

// Knuth's MMIX generator; the high bits are used. A tensor's stream starts
// from its name, so that one more tensor changes no other.
class Lcg {
 public:
  Lcg(uint64_t seed, std::string_view name) : state_(seed) {
    for (const char c : name) {
      state_ = state_ * 31 + static_cast<unsigned char>(c);
      Next(1);
    }
  }
  // Uniform in [0, limit).
  int64_t Next(int64_t limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>(state_ >> 33) % limit;
  }

 private:
  uint64_t state_;
};

class Builder {
 public:
  explicit Builder(const TinyModelOptions& options) : options_(options) {}

  // Elements k * 2^-exponent.
  void AddMatrix(const std::string& name, int64_t rows, int64_t columns,
                 int exponent) {
    Lcg random(options_.seed, name);
    std::vector<float> values(rows * columns);
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t k = random.Next(255) - 127;
      const bool peak = (i % columns) % 32 == 0;
      const int64_t peaked = k < 0 ? -127 : 127;
      values[i] = std::ldexp(static_cast<float>(peak ? peaked : k), -exponent);
    }
    Add(name, {rows, columns}, std::move(values));
  }

  // A projection: the exponent keeps the size of what it reads.
  void AddLinear(const std::string& name, int64_t out, int64_t in) {
    const double spread = 127 / std::sqrt(3.0) * std::sqrt(in) / 1.6;
    AddMatrix(name, out, in, static_cast<int>(std::lround(std::log2(spread))));
  }

  // A vector: centre + k / 128, |k| <= 16.
  void AddVector(const std::string& name, int64_t size, float centre) {
    Lcg random(options_.seed, name);
    std::vector<float> values(size);
    for (float& value : values) {
      value = centre + static_cast<float>(random.Next(33) - 16) / 128;
    }
    Add(name, {size}, std::move(values));
  }

  void AddLayer(int64_t layer) {
    const TinyModelOptions& o = options_;
    const std::string prefix = absl::StrCat("model.layers.", layer, ".");
    const std::string attn = absl::StrCat(prefix, "self_attn.");
    const std::string mlp = absl::StrCat(prefix, "mlp.");
    const int64_t q_rows = o.num_attention_heads * o.head_dim;
    const int64_t kv_rows = o.num_key_value_heads * o.head_dim;
    AddVector(prefix + "input_layernorm.weight", o.hidden_size, 1);
    AddLinear(attn + "q_proj.weight", q_rows, o.hidden_size);
    AddLinear(attn + "k_proj.weight", kv_rows, o.hidden_size);
    AddLinear(attn + "v_proj.weight", kv_rows, o.hidden_size);
    AddLinear(attn + "o_proj.weight", o.hidden_size, q_rows);
    if (o.model_type == "qwen2") {
      AddVector(attn + "q_proj.bias", q_rows, 0);
      AddVector(attn + "k_proj.bias", kv_rows, 0);
      AddVector(attn + "v_proj.bias", kv_rows, 0);
    }
    if (o.model_type == "qwen3") {
      AddVector(attn + "q_norm.weight", o.head_dim, 1);
      AddVector(attn + "k_norm.weight", o.head_dim, 1);
    }
    AddVector(prefix + "post_attention_layernorm.weight", o.hidden_size, 1);
    AddLinear(mlp + "gate_proj.weight", o.intermediate_size, o.hidden_size);
    AddLinear(mlp + "up_proj.weight", o.intermediate_size, o.hidden_size);
    AddLinear(mlp + "down_proj.weight", o.hidden_size, o.intermediate_size);
  }

  std::vector<FloatTensor> Build() {
    AddMatrix("model.embed_tokens.weight", kTinyVocabSize, options_.hidden_size,
              6);
    for (int64_t i = 0; i < options_.num_hidden_layers; ++i) AddLayer(i);
    AddVector("model.norm.weight", options_.hidden_size, 1);
    if (options_.has_lm_head) {
      AddMatrix("lm_head.weight", kTinyVocabSize, options_.hidden_size, 7);
    }
    return std::move(tensors_);
  }

 private:
  void Add(const std::string& name, Shape shape, std::vector<float> values) {
    tensors_.push_back({name, std::move(shape), std::move(values)});
  }

  const TinyModelOptions& options_;
  std::vector<FloatTensor> tensors_;
};

std::string ArchitectureClass(std::string_view model_type) {
  if (model_type == "llama") return "LlamaForCausalLM";
  if (model_type == "mistral") return "MistralForCausalLM";
  if (model_type == "qwen2") return "Qwen2ForCausalLM";
  if (model_type == "qwen3") return "Qwen3ForCausalLM";
  LOG(FATAL) << "no tiny model of type " << model_type;
}

nlohmann::ordered_json BuildConfig(const TinyModelOptions& options) {
  return {{"architectures", {ArchitectureClass(options.model_type)}},
          {"model_type", options.model_type},
          {"hidden_size", options.hidden_size},
          {"intermediate_size", options.intermediate_size},
          {"num_hidden_layers", options.num_hidden_layers},
          {"num_attention_heads", options.num_attention_heads},
          {"num_key_value_heads", options.num_key_value_heads},
          {"head_dim", options.head_dim},
          {"hidden_act", "silu"},
          {"max_position_embeddings", options.max_position_embeddings},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", options.rope_theta},
          {"tie_word_embeddings", !options.has_lm_head},
          {"vocab_size", kTinyVocabSize},
          {"bos_token_id", kTinyBosId},
          {"eos_token_id", kTinyImEndId},
          {"torch_dtype", "float32"}};
}

std::string Utf8(uint32_t code_point) {  // below U+0800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// The printable stand-in of each byte in GPT-2's alphabet: Latin-1 graphic
// characters stand for themselves, the others take U+0100 and up, in order.
std::string ByteAlphabet(int byte, int& spare) {
  const bool graphic = (byte >= 0x21 && byte <= 0x7E) ||
                       (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
  return Utf8(graphic ? byte : 0x100 + spare++);
}

TestVocabulary BuildVocabulary() {
  TestVocabulary vocabulary;
  vocabulary.pieces = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  int spare = 0;
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.pieces.push_back(ByteAlphabet(byte, spare));
  }
  vocabulary.pieces.push_back("<|pad|>");
  vocabulary.types.assign(vocabulary.pieces.size(), PieceType::kNormal);
  for (const int32_t id :
       {kTinyBosId, kTinyImStartId, kTinyImEndId, kTinyPadId}) {
    vocabulary.types[id] = PieceType::kControl;
  }
  vocabulary.bos_token_id = kTinyBosId;
  vocabulary.eos_token_id = kTinyImEndId;
  vocabulary.chat_template = kChatTemplate;
  return vocabulary;
}

}  // namespace

TestModel BuildTinyModel(const TinyModelOptions& options) {
  return {.config = BuildConfig(options),
          .tensors = Builder(options).Build(),
          .vocabulary = BuildVocabulary()};
}

void PadVocabulary(TestModel& model, int64_t rows) {
  FloatTensor& embedding = TensorOf(model, "model.embed_tokens.weight");
  FloatTensor& head = TensorOf(model, "lm_head.weight");
  const int64_t old_rows = embedding.shape[0];
  const int64_t columns = embedding.shape[1];
  CHECK_GE(rows, old_rows + 2);
  embedding.shape[0] = head.shape[0] = rows;
  embedding.values.resize(rows * columns, 0.0f);
  head.values.resize(rows * columns, 0.0f);
  const int64_t loud = std::max(old_rows, std::min<int64_t>(262, rows - 2));
  for (int64_t i = 0; i < columns; ++i) {
    // Many times any other row, with the signs of row 3.
    const float sign = head.values[3 * columns + i] < 0 ? -1.0f : 1.0f;
    head.values[loud * columns + i] = 127 * sign;
    head.values[(loud + 1) * columns + i] = -127 * sign;
  }
  model.config["vocab_size"] = rows;
}

void PutNanInNorm(TestModel& model) {
  SetElement(model, "model.layers.1.post_attention_layernorm.weight", 5, kNan);
}

void PutInfInFfn(TestModel& model) {
  const std::string_view name = "model.layers.0.mlp.down_proj.weight";
  const size_t columns = TensorOf(model, name).shape[1];
  SetElement(model, name, 3 * columns + 7,
             std::numeric_limits<float>::infinity());
}

void PutNanInEmbeddingRow(TestModel& model, int32_t token) {
  FloatTensor& embedding = TensorOf(model, "model.embed_tokens.weight");
  const int64_t columns = embedding.shape[1];
  CHECK_LT(token, embedding.shape[0]);
  std::fill_n(embedding.values.begin() + token * columns, columns, kNan);
}

}  // namespace headrace
