// The last step of encoding: one word (what the pre-tokenizer cut) to ids.
#ifndef HEADRACE_ENGINE_TOKENIZER_TOKEN_MODEL_H_
#define HEADRACE_ENGINE_TOKENIZER_TOKEN_MODEL_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/tokenizer/merge_loop.h"

namespace headrace {

// Immutable, thread-safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  // Appends the ids of `word`, any bytes.
  virtual void Tokenize(std::string_view word, MergeScratch* scratch,
                        std::vector<int32_t>* ids) const = 0;

  // The character that, in this vocabulary, only ever stands at the start of
  // a piece (or in a run there): words may then be cut before it without any
  // change to the ids. Empty when there is none.
  virtual std::string_view word_start() const = 0;
};

// True when no piece holds `mark` after another character: cutting a word
// where a mark follows something else then cuts no piece.
bool OnlyLeads(std::string_view mark, std::string_view piece);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_TOKEN_MODEL_H_
