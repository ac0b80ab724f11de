// Added and special tokens: found in the text before anything else is done
// to it.
#ifndef HEADRACE_ENGINE_TOKENIZER_ADDED_TOKENS_H_
#define HEADRACE_ENGINE_TOKENIZER_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace headrace {

// The flags are those of `added_tokens` in tokenizer.json.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      // a control token
  bool normalized = false;   // looked for in the normalised text
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // only where no word character touches it
};

// A text of segments, each of which may or may not hold control tokens.
struct SegmentBorder {
  size_t end;  // in the text; the next segment begins there
  bool parse_special;
};

// A stretch of text: an added token, or text between them.
struct AddedSpan {
  size_t begin;
  size_t end;
  std::optional<int32_t> id;
};

// Immutable, thread-safe.
//
// Matching is huggingface/tokenizers' (0.22, tokenizer/added_vocabulary.rs):
// the leftmost match wins, then the longest; what a flag then refuses is
// passed over as a whole. One rule is ours: what looks like a control token
// across the border of two segments is none, so that it can neither be forged
// there nor hide the token that follows.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // Contents must not be empty.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  bool has_special() const { return has_special_; }

  // Covers `text`. The last border's end is the size of the text.
  std::vector<AddedSpan> Split(std::string_view text,
                               const std::vector<SegmentBorder>& borders) const;

 private:
  struct Found {
    size_t length;
    const AddedToken* token;
  };
  // Control tokens that would pass `segment_end` are none.
  std::optional<Found> LongestAt(std::string_view text, size_t begin,
                                 size_t segment_end) const;

  std::vector<AddedToken> tokens_;
  bool has_special_ = false;
  // A trie: node << 8 | byte to the next node; 0 is the root.
  absl::flat_hash_map<uint64_t, uint32_t> edges_;
  std::vector<int32_t> token_at_node_;  // index into tokens_; -1: none
  std::vector<bool> first_bytes_;       // [256]
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_ADDED_TOKENS_H_
