// What Python's str methods do, on marked text: every byte of a result keeps
// the mark of the byte it came from.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_TEXT_OPERATIONS_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_TEXT_OPERATIONS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tokenizer/jinja/budget.h"
#include "engine/tokenizer/jinja/marked_text.h"

namespace headrace {

enum class CaseChange : uint8_t { kUpper, kLower, kTitle, kCapitalize, kSwap };
MarkedText ChangeCase(const MarkedText& text, CaseChange change);

enum class StripSide : uint8_t { kBoth, kLeft, kRight };
// Takes off white space, or the characters in `characters`.
MarkedText Strip(const MarkedText& text, StripSide side,
                 std::optional<std::string_view> characters);

// At most `most` cuts; all of them when negative. Without a separator, cuts at
// runs of white space and drops empty parts at the ends.
// Errors: INVALID_ARGUMENT for an empty separator, and for more parts than the
// budget has steps for.
absl::StatusOr<std::vector<MarkedText>> Split(
    JinjaBudget& budget, const MarkedText& text,
    std::optional<std::string_view> separator, int64_t most);
// The same, cutting from the right; parts are in the text's order.
absl::StatusOr<std::vector<MarkedText>> SplitFromRight(
    JinjaBudget& budget, const MarkedText& text,
    std::optional<std::string_view> separator, int64_t most);
absl::StatusOr<std::vector<MarkedText>> SplitLines(JinjaBudget& budget,
                                                   const MarkedText& text,
                                                   bool keep_ends);

// At most `most` times; everywhere when negative. An empty `old` stands
// between all characters.
absl::StatusOr<MarkedText> Replace(const JinjaBudget& budget,
                                   const MarkedText& text, std::string_view old,
                                   const MarkedText& replacement, int64_t most);

absl::StatusOr<MarkedText> Join(const JinjaBudget& budget,
                                const MarkedText& separator,
                                std::span<const MarkedText> parts);

// Fills up to `width` characters: `left_share` of the padding goes to the
// left. `fill` is one character.
enum class Alignment : uint8_t { kLeft, kCenter, kRight };
absl::StatusOr<MarkedText> Pad(const JinjaBudget& budget,
                               const MarkedText& text, Alignment alignment,
                               int64_t width, const MarkedText& fill);

// Every line but the first (or every one) behind `indention`, which goes to
// blank lines only when asked: jinja2's filter.
struct IndentStyle {
  MarkedText indention;
  bool first = false;
  bool blank = false;
};
absl::StatusOr<MarkedText> Indent(JinjaBudget& budget, const MarkedText& text,
                                  const IndentStyle& style);

// The offset of the last `needle` that ends at or before `end`, or npos.
// Charges for the search, which is not linear.
absl::StatusOr<size_t> FindLast(JinjaBudget& budget, std::string_view text,
                                std::string_view needle, size_t end);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_TEXT_OPERATIONS_H_
