#include "engine/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/log/check.h"
#include "engine/tokenizer/regex.h"
#include "engine/tokenizer/utf8.h"

namespace headrace {
namespace {

// White_Space (Unicode 15, PropList.txt).
bool IsWhiteSpace(const Utf8Part& part) {
  if (part.status != Utf8Status::kValid) return false;
  const char32_t c = part.code_point;
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// A character of \w (Unicode 15, UTS #18, annex C).
bool IsWordCharacter(std::string_view character) {
  static const Regex* const kWord = [] {
    absl::StatusOr<Regex> regex =
        Regex::Compile(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}])");
    CHECK_OK(regex.status());
    return new Regex(*std::move(regex));
  }();
  std::vector<TextRange> matches;
  kWord->FindAll(character, &matches);
  return !matches.empty();
}

// The character (or stray byte) that ends at `end`, which is not 0.
std::string_view CharacterBefore(std::string_view text, size_t end) {
  for (size_t length = 1; length <= 4 && length <= end; ++length) {
    const std::string_view tail = text.substr(end - length, length);
    const Utf8Part part = NextUtf8(tail);
    if (part.status == Utf8Status::kValid && part.length == length) return tail;
  }
  return text.substr(end - 1, 1);
}

size_t SkipSpaceBackwards(std::string_view text, size_t begin, size_t limit) {
  while (begin > limit) {
    const std::string_view before = CharacterBefore(text, begin);
    if (!IsWhiteSpace(NextUtf8(before))) break;
    begin -= before.size();
  }
  return std::max(begin, limit);
}

size_t SkipSpace(std::string_view text, size_t end) {
  while (end < text.size()) {
    const Utf8Part part = NextUtf8(text.substr(end));
    if (!IsWhiteSpace(part)) break;
    end += part.length;
  }
  return end;
}

bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && IsWordCharacter(CharacterBefore(text, begin))) return false;
  if (end == text.size()) return true;
  const std::string_view rest = text.substr(end);
  return !IsWordCharacter(rest.substr(0, NextUtf8(rest).length));
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), token_at_node_(1, -1), first_bytes_(256) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    has_special_ = has_special_ || tokens_[i].special;
    first_bytes_[static_cast<uint8_t>(content.front())] = true;
    uint64_t node = 0;
    for (const char byte : content) {
      const auto next = static_cast<uint32_t>(token_at_node_.size());
      const auto [edge, is_new] =
          edges_.emplace(node << 8 | static_cast<uint8_t>(byte), next);
      if (is_new) token_at_node_.push_back(-1);
      node = edge->second;
    }
    token_at_node_[node] = static_cast<int32_t>(i);
  }
}

std::optional<AddedTokenMatcher::Found> AddedTokenMatcher::LongestAt(
    std::string_view text, size_t begin, size_t segment_end) const {
  std::optional<Found> longest;
  uint64_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto edge = edges_.find(node << 8 | static_cast<uint8_t>(text[i]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (token_at_node_[node] < 0) continue;
    const AddedToken& token = tokens_[token_at_node_[node]];
    if (token.special && i >= segment_end) continue;
    longest = Found{i + 1 - begin, &token};
  }
  return longest;
}

std::vector<AddedSpan> AddedTokenMatcher::Split(
    std::string_view text, const std::vector<SegmentBorder>& borders) const {
  std::vector<AddedSpan> spans;
  size_t done = 0;      // covered by spans
  size_t position = 0;  // searched
  size_t segment = 0;   // the one that holds `position`
  while (!empty() && position < text.size()) {
    if (!first_bytes_[static_cast<uint8_t>(text[position])]) {
      ++position;
      continue;
    }
    while (borders[segment].end <= position) ++segment;
    const std::optional<Found> found =
        LongestAt(text, position, borders[segment].end);
    if (!found) {
      ++position;
      continue;
    }
    size_t begin = position;
    size_t end = begin + found->length;
    const AddedToken& token = *found->token;
    position = end;
    if (token.special && !borders[segment].parse_special) continue;
    if (token.single_word && !StandsAlone(text, begin, end)) continue;
    if (token.lstrip) begin = SkipSpaceBackwards(text, begin, done);
    if (token.rstrip) end = SkipSpace(text, end);
    if (begin > done) spans.push_back({done, begin, std::nullopt});
    spans.push_back({begin, end, token.id});
    done = std::max(done, end);
  }
  if (done < text.size()) spans.push_back({done, text.size(), std::nullopt});
  return spans;
}

}  // namespace headrace
