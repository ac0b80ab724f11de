// What the readers of tokenizer.json's steps share: a table of kinds, walked
// through Sequences, and the two structures that several kinds have.
#ifndef HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_STEP_TABLE_H_
#define HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_STEP_TABLE_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/tokenizer/json_reader.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace headrace {

// "<path of the step>: <what> is not supported".
absl::Status UnsupportedStep(const JsonReader& step, std::string_view what);

// {"String": "…"} or {"Regex": "…"} under "pattern".
absl::StatusOr<SplitPattern> ReadPattern(const JsonReader& step);

// Of the pre-tokenizer and the decoder of that name.
struct Metaspace {
  std::string replacement;
  PrependScheme scheme;
  bool split;
};
absl::StatusOr<Metaspace> ReadMetaspaceOptions(const JsonReader& step);

// Reads one step into `Out`.
template <typename Out>
struct StepKind {
  std::string_view type;
  absl::Status (*read)(const JsonReader& step, Out* out);
};

template <typename Out>
absl::Status ReadStep(const JsonReader& step, std::string_view type,
                      std::span<const StepKind<Out>> kinds, Out* out) {
  for (const StepKind<Out>& kind : kinds) {
    if (kind.type == type) return kind.read(step, out);
  }
  return absl::UnimplementedError(absl::StrFormat(
      "%s: the type \"%s\" is not supported", step.path(), type));
}

// Reads the step under `key`, and when it is a Sequence the steps in it (under
// `list_key`), in order, however deep.
template <typename Out>
absl::Status ReadSteps(const JsonReader& file, std::string_view key,
                       std::string_view list_key,
                       std::span<const StepKind<Out>> kinds, Out* out) {
  if (file.Find(key) == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const JsonReader first, file.Object(key));
  std::vector<JsonReader> waiting = {first};  // the next one last
  while (!waiting.empty()) {
    const JsonReader step = waiting.back();
    waiting.pop_back();
    ASSIGN_OR_RETURN(const std::string type, step.String("type", ""));
    if (type != "Sequence") {
      RETURN_IF_ERROR(ReadStep(step, type, kinds, out));
      continue;
    }
    RETURN_IF_ERROR(step.RefuseOthers({"type", list_key}));
    ASSIGN_OR_RETURN(const nlohmann::ordered_json* list, step.Array(list_key));
    for (size_t i = list == nullptr ? 0 : list->size(); i > 0; --i) {
      waiting.emplace_back((*list)[i - 1],
                           Indexed(step.PathOf(list_key), i - 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace headrace

#endif  // HEADRACE_ENGINE_TOKENIZER_HUGGING_FACE_STEP_TABLE_H_
