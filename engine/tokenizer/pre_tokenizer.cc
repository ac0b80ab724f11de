#include "engine/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"

namespace headrace {
namespace {

// A stretch of a word and whether the pattern matched it.
struct Stretch {
  size_t begin;
  size_t end;
  bool matched;
};

void FindMatches(const std::string& pattern, std::string_view text,
                 std::vector<TextRange>* matches) {
  if (pattern.empty()) return;
  size_t found = text.find(pattern);
  while (found != std::string_view::npos) {
    matches->push_back({found, found + pattern.size()});
    found = text.find(pattern, found + pattern.size());
  }
}
void FindMatches(const Regex& pattern, std::string_view text,
                 std::vector<TextRange>* matches) {
  pattern.FindAll(text, matches);
}

// Covers [0, size) with the matches and what is between them.
std::vector<Stretch> Cover(const std::vector<TextRange>& matches, size_t size,
                           bool invert) {
  std::vector<Stretch> stretches;
  stretches.reserve(matches.size() + 1);
  size_t done = 0;
  for (const TextRange match : matches) {
    if (match.begin > done) stretches.push_back({done, match.begin, invert});
    stretches.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done < size) stretches.push_back({done, size, invert});
  return stretches;
}

void MergeContiguous(std::vector<Stretch>* stretches) {
  std::vector<Stretch> merged;
  for (const Stretch& s : *stretches) {
    if (!merged.empty() && merged.back().matched == s.matched) {
      merged.back().end = s.end;
    } else {
      merged.push_back(s);
    }
  }
  *stretches = std::move(merged);
}

// A match joins what stands before it, unless that is a match too.
void MergeWithPrevious(std::vector<Stretch>* stretches) {
  std::vector<Stretch> merged;
  bool previous_matched = false;
  for (const Stretch& s : *stretches) {
    if (s.matched && !previous_matched && !merged.empty()) {
      merged.back().end = s.end;
    } else {
      merged.push_back(s);
    }
    previous_matched = s.matched;
  }
  *stretches = std::move(merged);
}

void MergeWithNext(std::vector<Stretch>* stretches) {
  std::vector<Stretch> merged;  // from the last to the first
  bool next_matched = false;
  for (auto it = stretches->rbegin(); it != stretches->rend(); ++it) {
    if (it->matched && !next_matched && !merged.empty()) {
      merged.back().begin = it->begin;
    } else {
      merged.push_back(*it);
    }
    next_matched = it->matched;
  }
  std::reverse(merged.begin(), merged.end());
  *stretches = std::move(merged);
}

void Behave(SplitBehavior behavior, std::vector<Stretch>* stretches) {
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return;
    case SplitBehavior::kRemoved:
      std::erase_if(*stretches, [](const Stretch& s) { return s.matched; });
      return;
    case SplitBehavior::kMergedWithPrevious:
      return MergeWithPrevious(stretches);
    case SplitBehavior::kMergedWithNext:
      return MergeWithNext(stretches);
    case SplitBehavior::kContiguous:
      return MergeContiguous(stretches);
  }
}

void AppendPart(const Word& word, size_t begin, size_t end,
                std::vector<Word>* words) {
  if (begin == end) return;
  words->push_back(
      {word.text.substr(begin, end - begin), word.at_start && begin == 0});
}

class SplitStep final : public PreTokenizerStep {
 public:
  SplitStep(SplitPattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void Cut(const Word& word, WordArena* /*arena*/,
           std::vector<Word>* words) const override {
    std::vector<TextRange> matches;
    std::visit([&](const auto& p) { FindMatches(p, word.text, &matches); },
               pattern_);
    if (matches.empty() && !invert_) {
      words->push_back(word);
      return;
    }
    std::vector<Stretch> stretches = Cover(matches, word.text.size(), invert_);
    Behave(behavior_, &stretches);
    for (const Stretch& s : stretches) AppendPart(word, s.begin, s.end, words);
  }

 private:
  SplitPattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class PrefixSpaceStep final : public PreTokenizerStep {
 public:
  void Cut(const Word& word, WordArena* arena,
           std::vector<Word>* words) const override {
    if (word.text.front() == ' ') {
      words->push_back(word);
      return;
    }
    std::string& text = arena->emplace_back(" ");
    text.append(word.text);
    words->push_back({text, word.at_start});
  }
};

class MetaspaceStep final : public PreTokenizerStep {
 public:
  MetaspaceStep(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void Cut(const Word& word, WordArena* arena,
           std::vector<Word>* words) const override {
    std::string& text = arena->emplace_back();
    text.reserve(word.text.size() + replacement_.size());
    if (Prepends(word)) text = replacement_;
    for (const char byte : word.text) {
      if (byte == ' ') {
        text.append(replacement_);
      } else {
        text.push_back(byte);
      }
    }
    const Word marked = {text, word.at_start};
    if (!split_) {
      words->push_back(marked);
      return;
    }
    size_t begin = 0;
    size_t next = text.find(replacement_, 1);
    while (next != std::string::npos) {
      AppendPart(marked, begin, next, words);
      begin = next;
      next = text.find(replacement_, begin + replacement_.size());
    }
    AppendPart(marked, begin, text.size(), words);
  }

 private:
  bool Prepends(const Word& word) const {
    if (word.text.front() == ' ' || word.text.starts_with(replacement_)) {
      return false;
    }
    switch (scheme_) {
      case PrependScheme::kNever:
        return false;
      case PrependScheme::kFirst:
        return word.at_start;
      case PrependScheme::kAlways:
        return true;
    }
    return false;
  }

  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

}  // namespace

std::unique_ptr<PreTokenizerStep> MakeSplitStep(SplitPattern pattern,
                                                SplitBehavior behavior,
                                                bool invert) {
  return std::make_unique<SplitStep>(std::move(pattern), behavior, invert);
}
std::unique_ptr<PreTokenizerStep> MakeDigitsStep(bool individual) {
  absl::StatusOr<Regex> numeric = Regex::Compile(R"(\p{N})");
  CHECK_OK(numeric.status());
  return MakeSplitStep(
      *std::move(numeric),
      individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
      /*invert=*/false);
}
std::unique_ptr<PreTokenizerStep> MakePrefixSpaceStep() {
  return std::make_unique<PrefixSpaceStep>();
}
std::unique_ptr<PreTokenizerStep> MakeMetaspaceStep(std::string replacement,
                                                    PrependScheme scheme,
                                                    bool split) {
  return std::make_unique<MetaspaceStep>(std::move(replacement), scheme, split);
}

PreTokenizer::PreTokenizer(std::vector<std::unique_ptr<PreTokenizerStep>> steps)
    : steps_(std::move(steps)) {}

std::vector<Word> PreTokenizer::Cut(const Word& text, WordArena* arena) const {
  std::vector<Word> words;
  if (text.text.empty()) return words;
  words.push_back(text);
  std::vector<Word> parts;
  for (const auto& step : steps_) {
    parts.clear();
    for (const Word& word : words) step->Cut(word, arena, &parts);
    words.swap(parts);
  }
  return words;
}

}  // namespace headrace
