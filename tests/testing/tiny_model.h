// The model that tests make for themselves: a Llama of two layers over bytes,
// with weights that every run, machine and file format has alike.
#ifndef HEADRACE_TESTS_TESTING_TINY_MODEL_H_
#define HEADRACE_TESTS_TESTING_TINY_MODEL_H_

#include <cstdint>
#include <string>

#include "tests/testing/test_model.h"

namespace headrace {

// Ids of the vocabulary: byte b is token b + kTinyFirstByteId.
inline constexpr int32_t kTinyBosId = 0;      // <|endoftext|>, control
inline constexpr int32_t kTinyImStartId = 1;  // <|im_start|>, control
inline constexpr int32_t kTinyImEndId = 2;    // <|im_end|>, control, EOS
inline constexpr int32_t kTinyFirstByteId = 3;
inline constexpr int32_t kTinyPadId = 259;  // <|pad|>, control
inline constexpr int32_t kTinyVocabSize = 260;

struct TinyModelOptions {
  // "llama" or "mistral"; "qwen2" adds biases to q, k and v; "qwen3" adds
  // q_norm and k_norm.
  std::string model_type = "llama";
  int64_t hidden_size = 32;
  int64_t intermediate_size = 64;
  int64_t num_hidden_layers = 2;
  int64_t num_attention_heads = 4;
  int64_t num_key_value_heads = 2;
  int64_t head_dim = 8;
  int64_t max_position_embeddings = 256;
  double rope_theta = 10000;
  // False: config says tied, and there is no lm_head.weight.
  bool has_lm_head = true;
  uint64_t seed = 1;
};

// Every matrix element is k * 2^-e with |k| <= 127, e fixed per tensor, and
// every group of 32 along a row holds a |k| of 127; norm weights are multiples
// of 1/128 near 1. So F32, F16, BF16 and Q8_0 files hold the *same numbers*,
// and must give the same logits bit for bit in exact mode.
TestModel BuildTinyModel(const TinyModelOptions& options = {});

// Adds rows to the embedding and the head until vocab_size is `rows`, without
// tokens for them. Row 262 (or the first new one) of the head is large, the
// next its negative, so that one of the two always has the highest logit.
// Dies without an lm_head.
void PadVocabulary(TestModel& model, int64_t rows = 264);
// NaN in the norm before layer 1's MLP, element 5.
void PutNanInNorm(TestModel& model);
// Infinity in layer 0's down projection, row 3, column 7.
void PutInfInFfn(TestModel& model);
// NaN in the whole embedding row of `token`; the head stays clean.
void PutNanInEmbeddingRow(TestModel& model, int32_t token = 65);

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_TINY_MODEL_H_
