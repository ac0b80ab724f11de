// Cuts text into the words that the model encodes one by one.
#ifndef HEADRACE_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
#define HEADRACE_ENGINE_TOKENIZER_PRE_TOKENIZER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/tokenizer/regex.h"

namespace headrace {

// What is done with the stretches that a Split step's pattern matches; the
// words are tokenizer.json's.
enum class SplitBehavior : uint8_t {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

// Where Metaspace puts a mark that the text does not have.
enum class PrependScheme : uint8_t { kFirst, kNever, kAlways };

struct Word {
  std::string_view text;
  bool at_start = false;  // it begins where the whole text begins
};

// Texts that a step had to rewrite; views into it stay valid.
using WordArena = std::deque<std::string>;

// One step. Immutable, thread-safe.
class PreTokenizerStep {
 public:
  virtual ~PreTokenizerStep() = default;
  // Appends the parts of `word`, which is not empty; no part is empty.
  virtual void Cut(const Word& word, WordArena* arena,
                   std::vector<Word>* words) const = 0;
};

// A literal text, or a regular expression. `invert`: what matches is what
// does not match.
using SplitPattern = std::variant<std::string, Regex>;
std::unique_ptr<PreTokenizerStep> MakeSplitStep(SplitPattern pattern,
                                                SplitBehavior behavior,
                                                bool invert);
// Cuts out runs of numeric characters (category N), or each of them.
std::unique_ptr<PreTokenizerStep> MakeDigitsStep(bool individual);
// Puts a space before each word that does not start with one.
std::unique_ptr<PreTokenizerStep> MakePrefixSpaceStep();
// Spaces become `replacement`, which also goes before the text; `split` cuts
// before each of them.
std::unique_ptr<PreTokenizerStep> MakeMetaspaceStep(std::string replacement,
                                                    PrependScheme scheme,
                                                    bool split);

class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<std::unique_ptr<PreTokenizerStep>> steps);

  std::vector<Word> Cut(const Word& text, WordArena* arena) const;

 private:
  std::vector<std::unique_ptr<PreTokenizerStep>> steps_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_PRE_TOKENIZER_H_
