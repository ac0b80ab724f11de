// Guesses what comes next from what was there before: where the last tokens
// occurred already, in the prompt or in what was generated, the tokens that
// followed them may follow again. Answers that quote, correct or list what they
// were given repeat much of it; others give few guesses.
// Source: Saxena 2023, "Prompt lookup decoding"
// (apoorvumang/prompt-lookup-decoding).
#ifndef HEADRACE_SERVER_BATCHING_PROMPT_LOOKUP_H_
#define HEADRACE_SERVER_BATCHING_PROMPT_LOOKUP_H_

#include <cstdint>
#include <span>
#include <vector>

namespace headrace {

// Owned by the batch loop; one per choice. Also knows how good its guesses
// were.
class PromptLookup {
 public:
  explicit PromptLookup(std::span<const int32_t> prompt)
      : tokens_(prompt.begin(), prompt.end()) {}

  // The next token.
  void Add(int32_t token) { tokens_.push_back(token); }

  // Up to `max_tokens` that may follow: after the longest run of tokens that
  // the sequence ends with and has had before, the latest of equals; none when
  // no run of kMinMatch is found.
  std::vector<int32_t> Guess(int64_t max_tokens) const;

  // Of `guessed` tokens the first `right` came.
  void OnOutcome(int64_t guessed, int64_t right);
  // There was a guess, and it was not worth trying: what is known of guesses
  // grows old, so that another is tried some day.
  void OnUntried();
  // The probability that a guessed token comes when those before it did.
  double acceptance() const { return acceptance_; }

 private:
  static constexpr int64_t kMinMatch = 3;
  static constexpr int64_t kMaxMatch = 8;
  // Looked back over so many tokens at the most, so that a guess costs little.
  static constexpr int64_t kWindow = 16384;
  static constexpr double kUnknownAcceptance = 0.7;

  std::vector<int32_t> tokens_;
  double acceptance_ = kUnknownAcceptance;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_BATCHING_PROMPT_LOOKUP_H_
