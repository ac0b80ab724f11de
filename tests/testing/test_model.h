// A whole small model in memory, in Hugging Face's terms, before it is written
// as files of one format or another.
#ifndef HEADRACE_TESTS_TESTING_TEST_MODEL_H_
#define HEADRACE_TESTS_TESTING_TEST_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/tensor_view.h"
#include "nlohmann/json.hpp"

namespace headrace {

struct FloatTensor {
  std::string name;  // Hugging Face's: "model.layers.0.mlp.up_proj.weight"
  Shape shape;       // [out, in]; q and k rows in half-split order
  std::vector<float> values;
};

enum class VocabularyKind : uint8_t {
  kByteLevelBpe,   // pieces in the GPT-2 byte alphabet
  kSentencePiece,  // pieces with U+2581 for a space, <0x0A> for bytes, scores
};

// token_type numbers of GGUF.
enum class PieceType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct TestVocabulary {
  VocabularyKind kind = VocabularyKind::kByteLevelBpe;
  std::vector<std::string> pieces;  // UTF-8; index = id
  std::vector<PieceType> types;     // one per piece
  std::vector<float> scores;        // one per piece for kSentencePiece
  // For kByteLevelBpe, as GGUF has them: "gpt-2" or "smollm" (digits alone);
  // "a b" pairs, best first.
  std::string pre_tokenizer = "gpt-2";
  std::vector<std::string> merges;
  int32_t bos_token_id = 0;
  int32_t eos_token_id = 0;
  bool add_bos_token = false;
  std::string chat_template;  // empty: none
};

struct TestModel {
  nlohmann::ordered_json config;  // config.json
  std::vector<FloatTensor> tensors;
  TestVocabulary vocabulary;
};

// Die when there is no such tensor, or no such element.
FloatTensor& TensorOf(TestModel& model, std::string_view name);
const FloatTensor& TensorOf(const TestModel& model, std::string_view name);
bool HasTensor(const TestModel& model, std::string_view name);
void SetElement(TestModel& model, std::string_view name, size_t index,
                float value);

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_TEST_MODEL_H_
