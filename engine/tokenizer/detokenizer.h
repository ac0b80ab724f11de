// Incremental decoding: text that comes out is always whole characters, and
// its concatenation equals the full decode.
#ifndef HEADRACE_ENGINE_TOKENIZER_DETOKENIZER_H_
#define HEADRACE_ENGINE_TOKENIZER_DETOKENIZER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/tokenizer/tokenizer.h"

namespace headrace {

// Thread-compatible; one per choice.
class IncrementalDetokenizer {
 public:
  // `tokenizer` outlives this. `continues_text`: the stream continues a prompt,
  // so no leading space is stripped.
  IncrementalDetokenizer(const Tokenizer* tokenizer, bool skip_special_tokens,
                         bool continues_text);

  // Adds a token; returns the text that became complete. At most three bytes
  // are held back. Bytes that can no longer become a character come out at
  // once as U+FFFD, one per maximal ill-formed part (Unicode 15, 3.9, U+FFFD
  // substitution of maximal subparts).
  std::string Add(int32_t token);
  // What is held back, at the end of the stream: U+FFFD if it is incomplete.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_tokens_;
  bool strip_space_;
  std::string pending_;
};

// Replaces every maximal ill-formed part by U+FFFD.
std::string ToValidUtf8(std::string_view bytes);

// Length of the longest prefix of `bytes` that is complete: valid characters
// and parts that can no longer become one.
size_t CompleteUtf8Prefix(std::string_view bytes);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_DETOKENIZER_H_
