// What is done to text: normalizer and pre_tokenizer of tokenizer.json.
#include <variant>

#include "engine/tokenizer/hugging_face_step_table.h"
#include "engine/tokenizer/hugging_face_steps.h"
#include "engine/tokenizer/pre_tokenizer_table.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

// --- Normalizer --------------------------------------------------------------
using NormalizerSteps = std::vector<std::unique_ptr<NormalizerStep>>;

template <UnicodeForm kForm>
absl::Status ReadUnicodeForm(const JsonReader& step, NormalizerSteps* steps) {
  RETURN_IF_ERROR(step.RefuseOthers({"type"}));
  steps->push_back(MakeUnicodeStep(kForm));
  return absl::OkStatus();
}

absl::Status ReadPrepend(const JsonReader& step, NormalizerSteps* steps) {
  RETURN_IF_ERROR(step.RefuseOthers({"type", "prepend"}));
  ASSIGN_OR_RETURN(std::string prefix, step.String("prepend", ""));
  steps->push_back(MakePrependStep(std::move(prefix)));
  return absl::OkStatus();
}

absl::Status ReadReplace(const JsonReader& step, NormalizerSteps* steps) {
  RETURN_IF_ERROR(step.RefuseOthers({"type", "pattern", "content"}));
  ASSIGN_OR_RETURN(SplitPattern pattern, ReadPattern(step));
  ASSIGN_OR_RETURN(std::string content, step.String("content", ""));
  steps->push_back(std::visit(
      [&content](auto&& p) {
        return MakeReplaceStep(std::move(p), std::move(content));
      },
      std::move(pattern)));
  return absl::OkStatus();
}

constexpr StepKind<NormalizerSteps> kNormalizers[] = {
    {"NFC", ReadUnicodeForm<UnicodeForm::kNfc>},
    {"NFD", ReadUnicodeForm<UnicodeForm::kNfd>},
    {"NFKC", ReadUnicodeForm<UnicodeForm::kNfkc>},
    {"NFKD", ReadUnicodeForm<UnicodeForm::kNfkd>},
    {"Prepend", ReadPrepend},
    {"Replace", ReadReplace},
};

// --- Pre-tokenizer -----------------------------------------------------------
struct SplitName {
  std::string_view name;
  SplitBehavior behavior;
};
constexpr SplitName kSplitNames[] = {
    {"Removed", SplitBehavior::kRemoved},
    {"Isolated", SplitBehavior::kIsolated},
    {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
    {"MergedWithNext", SplitBehavior::kMergedWithNext},
    {"Contiguous", SplitBehavior::kContiguous},
};

absl::Status CheckNotByteLevel(const JsonReader& step,
                               const HfPreTokenizer& out) {
  if (!out.byte_level) return absl::OkStatus();
  return UnsupportedStep(step, "a step after ByteLevel");
}

absl::Status ReadSplit(const JsonReader& step, HfPreTokenizer* out) {
  RETURN_IF_ERROR(CheckNotByteLevel(step, *out));
  RETURN_IF_ERROR(step.RefuseOthers({"type", "pattern", "behavior", "invert"}));
  ASSIGN_OR_RETURN(SplitPattern pattern, ReadPattern(step));
  ASSIGN_OR_RETURN(const std::string behavior, step.String("behavior", ""));
  ASSIGN_OR_RETURN(const bool invert, step.Bool("invert", false));
  for (const SplitName& known : kSplitNames) {
    if (known.name != behavior) continue;
    out->steps.push_back(
        MakeSplitStep(std::move(pattern), known.behavior, invert));
    return absl::OkStatus();
  }
  return UnsupportedStep(step, absl::StrCat("the behavior \"", behavior, "\""));
}

absl::Status ReadDigits(const JsonReader& step, HfPreTokenizer* out) {
  RETURN_IF_ERROR(CheckNotByteLevel(step, *out));
  RETURN_IF_ERROR(step.RefuseOthers({"type", "individual_digits"}));
  ASSIGN_OR_RETURN(const bool individual,
                   step.Bool("individual_digits", false));
  out->steps.push_back(MakeDigitsStep(individual));
  return absl::OkStatus();
}

absl::Status ReadByteLevel(const JsonReader& step, HfPreTokenizer* out) {
  RETURN_IF_ERROR(CheckNotByteLevel(step, *out));
  RETURN_IF_ERROR(step.RefuseOthers(
      {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  ASSIGN_OR_RETURN(const bool prefix_space,
                   step.Bool("add_prefix_space", true));
  ASSIGN_OR_RETURN(const bool use_regex, step.Bool("use_regex", true));
  if (prefix_space) out->steps.push_back(MakePrefixSpaceStep());
  if (use_regex) {
    ASSIGN_OR_RETURN(Regex regex, Regex::Compile(kGpt2Pattern));
    out->steps.push_back(MakeSplitStep(
        std::move(regex), SplitBehavior::kIsolated, /*invert=*/false));
  }
  out->byte_level = true;
  return absl::OkStatus();
}

absl::Status ReadMetaspace(const JsonReader& step, HfPreTokenizer* out) {
  RETURN_IF_ERROR(CheckNotByteLevel(step, *out));
  ASSIGN_OR_RETURN(Metaspace options, ReadMetaspaceOptions(step));
  out->steps.push_back(MakeMetaspaceStep(std::move(options.replacement),
                                         options.scheme, options.split));
  return absl::OkStatus();
}

constexpr StepKind<HfPreTokenizer> kPreTokenizers[] = {
    {"Split", ReadSplit},
    {"Digits", ReadDigits},
    {"ByteLevel", ReadByteLevel},
    {"Metaspace", ReadMetaspace},
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<NormalizerStep>>> ReadNormalizer(
    const JsonReader& file) {
  NormalizerSteps steps;
  RETURN_IF_ERROR(ReadSteps<NormalizerSteps>(file, "normalizer", "normalizers",
                                             kNormalizers, &steps));
  return steps;
}

absl::StatusOr<HfPreTokenizer> ReadPreTokenizer(
    const JsonReader& file, std::optional<bool> add_prefix_space) {
  HfPreTokenizer out;
  const ordered_json* const step = file.Find("pre_tokenizer");
  if (add_prefix_space && step != nullptr && step->is_object() &&
      step->value("type", ordered_json()) == "ByteLevel") {
    ordered_json changed = *step;
    changed["add_prefix_space"] = *add_prefix_space;
    RETURN_IF_ERROR(
        ReadByteLevel(JsonReader(changed, file.PathOf("pre_tokenizer")), &out));
    return out;
  }
  RETURN_IF_ERROR(ReadSteps<HfPreTokenizer>(
      file, "pre_tokenizer", "pretokenizers", kPreTokenizers, &out));
  return out;
}

}  // namespace headrace
