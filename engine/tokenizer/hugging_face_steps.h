// The steps of a tokenizer.json beside its model: normalizer, pre_tokenizer,
// post_processor, decoder. One more kind of step is one more function and one
// line in a table of hugging_face_text_steps.cc or hugging_face_token_steps.cc.
//
// Source: huggingface/tokenizers 0.22. What is not supported is an error.
#ifndef HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_STEPS_H_
#define HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_STEPS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/json_reader.h"
#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace headrace {

// In each: `file` is tokenizer.json; the step may be absent or null.
// Errors: UNIMPLEMENTED naming the step; DATA_LOSS for what is malformed.

absl::StatusOr<std::vector<std::unique_ptr<NormalizerStep>>> ReadNormalizer(
    const JsonReader& file);

struct HfPreTokenizer {
  std::vector<std::unique_ptr<PreTokenizerStep>> steps;
  bool byte_level = false;  // words are bytes from here on
};
// `add_prefix_space`: what tokenizer_config.json says, which wins over a
// ByteLevel that is the whole pre-tokenizer, as in transformers.
absl::StatusOr<HfPreTokenizer> ReadPreTokenizer(
    const JsonReader& file, std::optional<bool> add_prefix_space);

// Ids around every text.
struct HfTemplate {
  std::vector<int64_t> prefix;
  std::vector<int64_t> suffix;
};
absl::StatusOr<HfTemplate> ReadPostProcessor(const JsonReader& file);

// What a token's text stands for.
struct HfDecoder {
  bool present = false;
  bool byte_level = false;
  bool byte_fallback = false;
  bool fused = false;
  bool strips_leading_space = false;
  // Pattern and content, in order.
  std::vector<std::pair<std::string, std::string>> replacements;

  std::string Decode(std::string_view token) const;
};
absl::StatusOr<HfDecoder> ReadDecoder(const JsonReader& file);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_STEPS_H_
