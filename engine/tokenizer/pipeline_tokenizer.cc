#include "engine/tokenizer/pipeline_tokenizer.h"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/text_map.h"
#include "engine/tokenizer/token_text.h"

namespace headrace {

// Encodes words for one call, and remembers them: ordinary text repeats its
// words, and a cache of the call's own needs no lock.
class PipelineTokenizer::WordEncoder {
 public:
  WordEncoder(const TokenizerParts& parts, std::vector<int32_t>* ids)
      : parts_(parts), ids_(ids) {}

  void PushId(int32_t id) { ids_->push_back(id); }

  // `text` lies in the caller's text or in arena() until the call ends.
  void EncodeText(const Word& text) {
    for (const Word& word : parts_.pre_tokenizer.Cut(text, &arena_)) {
      CutAndEncode(word.text);
    }
  }

  WordArena& arena() { return arena_; }

 private:
  struct Cached {
    size_t begin;  // in ids_
    size_t count;
  };
  static constexpr size_t kMaxCachedBytes = 48;
  static constexpr size_t kMaxCachedWords = 1 << 16;

  void CutAndEncode(std::string_view word) {
    const std::string_view start = parts_.model->word_start();
    if (start.empty()) return EncodeWord(word);
    size_t begin = 0;
    size_t mark = word.find(start);
    while (mark != std::string_view::npos) {
      const bool follows_mark =
          mark >= start.size() &&
          word.substr(mark - start.size(), start.size()) == start;
      if (mark > begin && !follows_mark) {
        EncodeWord(word.substr(begin, mark - begin));
        begin = mark;
      }
      mark = word.find(start, mark + start.size());
    }
    EncodeWord(word.substr(begin));
  }

  void EncodeWord(std::string_view word) {
    if (word.size() > kMaxCachedBytes) {
      parts_.model->Tokenize(word, &scratch_, ids_);
      return;
    }
    const auto it = cache_.find(word);
    if (it != cache_.end()) {
      const Cached cached = it->second;
      for (size_t i = 0; i < cached.count; ++i) {
        const int32_t id = (*ids_)[cached.begin + i];
        ids_->push_back(id);
      }
      return;
    }
    const size_t begin = ids_->size();
    parts_.model->Tokenize(word, &scratch_, ids_);
    if (cache_.size() < kMaxCachedWords) {
      cache_.emplace(word, Cached{begin, ids_->size() - begin});
    }
  }

  const TokenizerParts& parts_;
  std::vector<int32_t>* ids_;
  WordArena arena_;
  MergeScratch scratch_;
  TextViewMap<Cached> cache_;
};

PipelineTokenizer::PipelineTokenizer(TokenizerParts parts)
    : parts_(std::move(parts)) {
  std::vector<AddedToken> raw;
  std::vector<AddedToken> normalized;
  for (const AddedToken& token : parts_.added_tokens) {
    if (!token.normalized) {
      raw.push_back(token);
      continue;
    }
    std::string content =
        parts_.normalizer.Apply(token.content, /*at_start=*/true);
    if (content.empty()) continue;
    normalized.push_back(token);
    normalized.back().content = std::move(content);
  }
  raw_matcher_ = AddedTokenMatcher(std::move(raw));
  normalized_matcher_ = AddedTokenMatcher(std::move(normalized));
}

std::vector<int32_t> PipelineTokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  return EncodeText(text, {{text.size(), options.parse_special}},
                    options.add_special_tokens.value_or(true));
}

std::vector<int32_t> PipelineTokenizer::EncodeSegments(
    const std::vector<TextSegment>& segments,
    std::optional<bool> add_special_tokens) const {
  std::string text;
  std::vector<SegmentBorder> borders;
  for (const TextSegment& segment : segments) {
    text.append(segment.text);
    borders.push_back({text.size(), segment.parse_special});
  }
  return EncodeText(text, borders, add_special_tokens.value_or(true));
}

std::vector<int32_t> PipelineTokenizer::EncodeText(
    std::string_view text, const std::vector<SegmentBorder>& borders,
    bool add_special_tokens) const {
  std::vector<int32_t> ids;
  if (add_special_tokens) ids = parts_.prefix_ids;
  WordEncoder encoder(parts_, &ids);
  for (const AddedSpan& span : raw_matcher_.Split(text, borders)) {
    if (span.id) {
      encoder.PushId(*span.id);
    } else {
      EncodeSection(text, span, borders, &encoder);
    }
  }
  if (add_special_tokens) {
    ids.insert(ids.end(), parts_.suffix_ids.begin(), parts_.suffix_ids.end());
  }
  return ids;
}

void PipelineTokenizer::EncodeSection(std::string_view text, AddedSpan section,
                                      const std::vector<SegmentBorder>& borders,
                                      WordEncoder* encoder) const {
  const bool at_start = section.begin == 0;
  std::string_view normalized =
      text.substr(section.begin, section.end - section.begin);
  if (!parts_.normalizer.is_identity()) {
    normalized = encoder->arena().emplace_back(
        parts_.normalizer.Apply(normalized, /*at_start=*/true));
  }
  if (normalized_matcher_.empty()) {
    encoder->EncodeText({normalized, at_start});
    return;
  }
  const std::vector<SegmentBorder> mapped =
      NormalizedBorders(text, section, borders, normalized.size());
  for (const AddedSpan& span : normalized_matcher_.Split(normalized, mapped)) {
    if (span.id) {
      encoder->PushId(*span.id);
    } else {
      encoder->EncodeText({normalized.substr(span.begin, span.end - span.begin),
                           at_start && span.begin == 0});
    }
  }
}

// The borders of the segments within `section`, in its normalised text. Exact
// for the normalisers of files that look for control tokens there (marks for
// spaces); a border between a letter and its accent may move by that letter.
std::vector<SegmentBorder> PipelineTokenizer::NormalizedBorders(
    std::string_view text, AddedSpan section,
    const std::vector<SegmentBorder>& borders, size_t normalized_size) const {
  std::vector<SegmentBorder> mapped;
  size_t begin = section.begin;
  size_t mapped_end = 0;
  for (const SegmentBorder& border : borders) {
    if (border.end <= begin) continue;
    const bool last = border.end >= section.end;
    if (last || !normalized_matcher_.has_special()) {
      mapped.push_back({normalized_size, border.parse_special});
      break;
    }
    const std::string part = parts_.normalizer.Apply(
        text.substr(begin, border.end - begin), begin == section.begin);
    mapped_end = std::min(mapped_end + part.size(), normalized_size);
    mapped.push_back({mapped_end, border.parse_special});
    begin = border.end;
  }
  return mapped;
}

std::string PipelineTokenizer::Decode(const std::vector<int32_t>& ids,
                                      bool skip_special_tokens) const {
  std::string text;
  bool strip_space = parts_.strips_leading_space;
  for (const int32_t id : ids) {
    text.append(TokenText(*this, id, skip_special_tokens, &strip_space));
  }
  return text;
}

}  // namespace headrace
