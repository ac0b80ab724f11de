#include "engine/tokenizer/jinja/marked_text.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace headrace {
namespace {

TextOrigin AfterFlips(TextOrigin first, size_t flips) {
  if (flips % 2 == 0) return first;
  return first == TextOrigin::kInput ? TextOrigin::kTemplate
                                     : TextOrigin::kInput;
}

}  // namespace

MarkedText::MarkedText(std::string bytes, TextOrigin origin)
    : bytes_(std::move(bytes)), first_(origin) {}

TextOrigin MarkedText::origin() const {
  if (bytes_.empty()) return TextOrigin::kTemplate;
  return flips_.empty() ? first_ : TextOrigin::kInput;
}

void MarkedText::Append(std::string_view bytes, TextOrigin origin) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    first_ = origin;
  } else if (AfterFlips(first_, flips_.size()) != origin) {
    flips_.push_back(bytes_.size());
  }
  bytes_.append(bytes);
}

void MarkedText::Append(const MarkedText& other) {
  AppendSlice(other, 0, other.size());
}

void MarkedText::AppendSlice(const MarkedText& other, size_t begin,
                             size_t end) {
  const std::string_view bytes = other.bytes_;
  while (begin < end) {
    const Run run = other.RunAt(begin);
    const size_t stop = std::min(run.end, end);
    Append(bytes.substr(begin, stop - begin), run.origin);
    begin = stop;
  }
}

MarkedText MarkedText::Slice(size_t begin, size_t end) const {
  MarkedText slice;
  slice.AppendSlice(*this, begin, end);
  return slice;
}

std::vector<MarkedText::Run> MarkedText::runs() const {
  std::vector<Run> runs;
  for (size_t begin = 0; begin < size();) {
    runs.push_back(RunAt(begin));
    begin = runs.back().end;
  }
  return runs;
}

MarkedText::Run MarkedText::RunAt(size_t offset) const {
  const auto next = std::upper_bound(flips_.begin(), flips_.end(), offset);
  const auto passed = static_cast<size_t>(std::distance(flips_.begin(), next));
  return {passed == 0 ? 0 : flips_[passed - 1],
          next == flips_.end() ? size() : *next, AfterFlips(first_, passed)};
}

}  // namespace headrace
