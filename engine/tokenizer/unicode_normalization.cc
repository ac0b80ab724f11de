// Unicode normal forms on top of utf8proc's tables. utf8proc's own ordering
// of combining marks takes quadratic time on long runs of them, so that the
// marks are put in order here before it composes.
#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "engine/tokenizer/normalizer.h"
#include "engine/tokenizer/utf8.h"

namespace headrace {
namespace {

// Everything below U+0300 is in NFC already (Unicode 15, UAX #15, table
// NFC_Quick_Check), and bytes below 0xCC begin nothing above.
bool IsPlainNfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
}

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Full decomposition of every character, without reordering.
std::vector<utf8proc_int32_t> Decompose(std::string_view run, int options) {
  std::vector<utf8proc_int32_t> out;
  out.reserve(run.size());
  // The longest decomposition, that of U+FDFA, has 18 characters.
  utf8proc_int32_t parts[32];
  while (!run.empty()) {
    const Utf8Part part = NextUtf8(run);
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(part.code_point), parts, 32,
        static_cast<utf8proc_option_t>(options), &boundary);
    out.insert(out.end(), parts, parts + std::max<utf8proc_ssize_t>(count, 0));
    run.remove_prefix(part.length);
  }
  return out;
}

// Canonical ordering, D109.
void OrderMarks(std::vector<utf8proc_int32_t>* text) {
  auto begin = text->begin();
  while (begin != text->end()) {
    if (CombiningClass(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, text->end(), [](utf8proc_int32_t c) {
      return CombiningClass(c) == 0;
    });
    std::stable_sort(begin, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    begin = end;
  }
}

void AppendNormalized(std::string_view run, UnicodeForm form,
                      std::string* out) {
  const bool composes = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  const bool compatible =
      form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const int options =
      UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  std::vector<utf8proc_int32_t> text = Decompose(run, options);
  OrderMarks(&text);
  if (composes) {
    const utf8proc_ssize_t length = utf8proc_normalize_utf32(
        text.data(), static_cast<utf8proc_ssize_t>(text.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    text.resize(std::max<utf8proc_ssize_t>(length, 0));
  }
  for (const utf8proc_int32_t code_point : text) {
    AppendUtf8(static_cast<char32_t>(code_point), out);
  }
}

}  // namespace

std::string NormalizeUnicode(std::string_view text, UnicodeForm form) {
  if (form == UnicodeForm::kNfc && IsPlainNfc(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = Utf8RunLength(text, /*valid=*/true);
    AppendNormalized(text.substr(0, valid), form, &out);
    text.remove_prefix(valid);
    const size_t invalid = Utf8RunLength(text, /*valid=*/false);
    out.append(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
  return out;
}

}  // namespace headrace
