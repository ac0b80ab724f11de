#include "engine/tokenizer/normalizer.h"

#include <utility>

namespace headrace {
namespace {

class UnicodeStep final : public NormalizerStep {
 public:
  explicit UnicodeStep(UnicodeForm form) : form_(form) {}
  std::string Apply(std::string_view text, bool /*at_start*/) const override {
    return NormalizeUnicode(text, form_);
  }

 private:
  UnicodeForm form_;
};

class PrependStep final : public NormalizerStep {
 public:
  explicit PrependStep(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string Apply(std::string_view text, bool at_start) const override {
    std::string out = at_start ? prefix_ : "";
    out.append(text);
    return out;
  }

 private:
  std::string prefix_;
};

class ReplaceTextStep final : public NormalizerStep {
 public:
  ReplaceTextStep(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string Apply(std::string_view text, bool /*at_start*/) const override {
    std::string out;
    out.reserve(text.size());
    size_t done = 0;
    while (true) {
      const size_t found = text.find(pattern_, done);
      if (found == std::string_view::npos) break;
      out.append(text.substr(done, found - done)).append(content_);
      done = found + pattern_.size();
    }
    out.append(text.substr(done));
    return out;
  }

 private:
  std::string pattern_;
  std::string content_;
};

class ReplaceRegexStep final : public NormalizerStep {
 public:
  ReplaceRegexStep(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string Apply(std::string_view text, bool /*at_start*/) const override {
    std::vector<TextRange> matches;
    pattern_.FindAll(text, &matches);
    std::string out;
    out.reserve(text.size());
    size_t done = 0;
    for (const TextRange match : matches) {
      out.append(text.substr(done, match.begin - done)).append(content_);
      done = match.end;
    }
    out.append(text.substr(done));
    return out;
  }

 private:
  Regex pattern_;
  std::string content_;
};

}  // namespace

std::unique_ptr<NormalizerStep> MakeUnicodeStep(UnicodeForm form) {
  return std::make_unique<UnicodeStep>(form);
}
std::unique_ptr<NormalizerStep> MakePrependStep(std::string prefix) {
  return std::make_unique<PrependStep>(std::move(prefix));
}
std::unique_ptr<NormalizerStep> MakeReplaceStep(std::string pattern,
                                                std::string content) {
  return std::make_unique<ReplaceTextStep>(std::move(pattern),
                                           std::move(content));
}
std::unique_ptr<NormalizerStep> MakeReplaceStep(Regex pattern,
                                                std::string content) {
  return std::make_unique<ReplaceRegexStep>(std::move(pattern),
                                            std::move(content));
}

Normalizer::Normalizer(std::vector<std::unique_ptr<NormalizerStep>> steps)
    : steps_(std::move(steps)) {}

std::string Normalizer::Apply(std::string_view text, bool at_start) const {
  std::string out(text);
  for (const auto& step : steps_) {
    if (out.empty()) break;
    out = step->Apply(out, at_start);
  }
  return out;
}

}  // namespace headrace
