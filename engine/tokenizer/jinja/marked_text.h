// Text that remembers where each byte came from. What a template wrote may
// name control tokens; what came in with a request may not, whatever string
// operations it went through.
#ifndef HEADRACE_ENGINE_TOKENIZER_JINJA_MARKED_TEXT_H_
#define HEADRACE_ENGINE_TOKENIZER_JINJA_MARKED_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headrace {

enum class TextOrigin : uint8_t { kTemplate, kInput };

// The origin of something made from both: input wins.
inline TextOrigin MergeOrigins(TextOrigin a, TextOrigin b) {
  return a == TextOrigin::kInput ? a : b;
}

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes, TextOrigin origin);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // kInput when any byte is.
  TextOrigin origin() const;

  void Append(std::string_view bytes, TextOrigin origin);
  void Append(const MarkedText& other);
  // Appends the bytes [begin, end) of `other`, with their marks.
  void AppendSlice(const MarkedText& other, size_t begin, size_t end);
  // The bytes [begin, end), with their marks.
  MarkedText Slice(size_t begin, size_t end) const;

  // A maximal run of bytes of one origin: [begin, end).
  struct Run {
    size_t begin;
    size_t end;
    TextOrigin origin;
  };
  // In order; none when the text is empty.
  std::vector<Run> runs() const;
  // The run that holds the byte at `offset`, which is less than size().
  Run RunAt(size_t offset) const;

 private:
  std::string bytes_;
  // The first byte's origin, and the offsets where it flips, ascending, each
  // in (0, size).
  TextOrigin first_ = TextOrigin::kTemplate;
  std::vector<size_t> flips_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_JINJA_MARKED_TEXT_H_
