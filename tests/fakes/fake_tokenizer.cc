#include "tests/fakes/fake_tokenizer.h"

namespace headrace {

FakeTokenizer::FakeTokenizer(bool adds_bos) : adds_bos_(adds_bos) {
  for (int byte = 0; byte < 256; ++byte) {
    pieces_.emplace_back(1, static_cast<char>(byte));
  }
  for (const char* piece : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
    pieces_.emplace_back(piece);
  }
}

std::vector<int32_t> FakeTokenizer::Encode(std::string_view text,
                                           const EncodeOptions& options) const {
  return EncodeSegments({{std::string(text), options.parse_special}},
                        options.add_special_tokens);
}

std::vector<int32_t> FakeTokenizer::EncodeSegments(
    const std::vector<TextSegment>& segments,
    std::optional<bool> add_special_tokens) const {
  std::vector<int32_t> ids;
  if (adds_bos_ && add_special_tokens.value_or(true)) ids.push_back(kFakeBos);
  for (const TextSegment& segment : segments) {
    std::string_view rest = segment.text;
    while (!rest.empty()) {
      int32_t id = static_cast<unsigned char>(rest[0]);
      if (segment.parse_special) {
        for (int32_t control = kFakeBos; control < kFakeVocabSize; ++control) {
          if (rest.starts_with(pieces_[control])) id = control;
        }
      }
      ids.push_back(id);
      rest.remove_prefix(pieces_[id].size());
    }
  }
  return ids;
}

std::string_view FakeTokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id >= kFakeVocabSize) return {};
  return pieces_[id];
}

TokenKind FakeTokenizer::KindOf(int32_t id) const {
  return id < kFakeBos ? TokenKind::kByte : TokenKind::kControl;
}

std::string FakeTokenizer::Decode(const std::vector<int32_t>& ids,
                                  bool skip_special_tokens) const {
  std::string text;
  for (const int32_t id : ids) {
    if (skip_special_tokens && KindOf(id) == TokenKind::kControl) continue;
    text += TokenBytes(id);
  }
  return text;
}

std::optional<int32_t> FakeTokenizer::TokenId(std::string_view piece) const {
  for (int32_t id = 0; id < kFakeVocabSize; ++id) {
    if (pieces_[id] == piece) return id;
  }
  return std::nullopt;
}

}  // namespace headrace
