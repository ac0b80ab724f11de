#include "engine/tokenizer/hugging_face_step_table.h"

#include <utility>

namespace headrace {

absl::Status UnsupportedStep(const JsonReader& step, std::string_view what) {
  return absl::UnimplementedError(
      absl::StrFormat("%s: %s is not supported", step.path(), what));
}

absl::StatusOr<SplitPattern> ReadPattern(const JsonReader& step) {
  ASSIGN_OR_RETURN(const JsonReader pattern, step.Object("pattern"));
  RETURN_IF_ERROR(pattern.RefuseOthers({"String", "Regex"}));
  ASSIGN_OR_RETURN(const std::string text, pattern.String("String", ""));
  if (!text.empty()) return text;
  ASSIGN_OR_RETURN(const std::string regex, pattern.String("Regex", ""));
  if (regex.empty()) return UnsupportedStep(step, "an empty pattern");
  absl::StatusOr<Regex> compiled = Regex::Compile(regex);
  if (!compiled.ok()) {
    return absl::Status(
        compiled.status().code(),
        absl::StrCat(step.path(), ": ", compiled.status().message()));
  }
  return *std::move(compiled);
}

// Old files have add_prefix_space and str_rep.
absl::StatusOr<Metaspace> ReadMetaspaceOptions(const JsonReader& step) {
  RETURN_IF_ERROR(step.RefuseOthers({"type", "replacement", "prepend_scheme",
                                     "split", "add_prefix_space", "str_rep"}));
  Metaspace options;
  ASSIGN_OR_RETURN(options.replacement, step.String("replacement", ""));
  if (options.replacement.empty()) {
    return UnsupportedStep(step, "an empty replacement");
  }
  ASSIGN_OR_RETURN(options.split, step.Bool("split", true));
  ASSIGN_OR_RETURN(const bool prefix_space,
                   step.Bool("add_prefix_space", true));
  ASSIGN_OR_RETURN(
      const std::string scheme,
      step.String("prepend_scheme", prefix_space ? "always" : "never"));
  if (scheme == "first") {
    options.scheme = PrependScheme::kFirst;
  } else if (scheme == "never") {
    options.scheme = PrependScheme::kNever;
  } else if (scheme == "always") {
    options.scheme = PrependScheme::kAlways;
  } else {
    return UnsupportedStep(step, absl::StrCat("the scheme \"", scheme, "\""));
  }
  return options;
}

}  // namespace headrace
