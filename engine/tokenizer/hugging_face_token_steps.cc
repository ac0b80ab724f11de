// What is done to tokens: post_processor and decoder of tokenizer.json.
#include <variant>

#include "absl/strings/str_replace.h"
#include "engine/tokenizer/byte_level.h"
#include "engine/tokenizer/hugging_face_step_table.h"
#include "engine/tokenizer/hugging_face_steps.h"

namespace headrace {
namespace {

using nlohmann::ordered_json;

// --- Post-processor ----------------------------------------------------------
absl::Status ReadSpecialIds(const JsonReader& step, const ordered_json& item,
                            std::vector<int64_t>* ids) {
  ASSIGN_OR_RETURN(const JsonReader special, step.Object("special_tokens"));
  ASSIGN_OR_RETURN(
      const std::string name,
      JsonReader(item, step.PathOf("single.SpecialToken")).String("id", ""));
  ASSIGN_OR_RETURN(const JsonReader entry, special.Object(name));
  ASSIGN_OR_RETURN(const ordered_json* list, entry.Array("ids"));
  if (list == nullptr) {
    return absl::DataLossError(absl::StrCat(entry.path(), ".ids is missing"));
  }
  for (const ordered_json& id : *list) {
    if (!id.is_number_integer()) return entry.Mismatch("ids", id, "integers");
    ids->push_back(id.get<int64_t>());
  }
  return absl::OkStatus();
}

// What stands around the text in `single`; steps before this one are nearer.
absl::Status ReadTemplate(const JsonReader& step, HfTemplate* out) {
  RETURN_IF_ERROR(
      step.RefuseOthers({"type", "single", "pair", "special_tokens"}));
  ASSIGN_OR_RETURN(const ordered_json* single, step.Array("single"));
  if (single == nullptr) {
    return absl::DataLossError(absl::StrCat(step.path(), ".single is missing"));
  }
  HfTemplate around;
  int sequences = 0;
  for (const ordered_json& item : *single) {
    if (item.is_object() && item.contains("SpecialToken")) {
      RETURN_IF_ERROR(
          ReadSpecialIds(step, item["SpecialToken"],
                         sequences == 0 ? &around.prefix : &around.suffix));
    } else {
      ++sequences;
    }
  }
  if (sequences != 1) {
    return UnsupportedStep(step, "a template that does not hold the text once");
  }
  out->prefix.insert(out->prefix.begin(), around.prefix.begin(),
                     around.prefix.end());
  out->suffix.insert(out->suffix.end(), around.suffix.begin(),
                     around.suffix.end());
  return absl::OkStatus();
}

// Offsets only.
absl::Status ReadByteLevelProcessor(const JsonReader& step,
                                    HfTemplate* /*out*/) {
  return step.RefuseOthers(
      {"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

constexpr StepKind<HfTemplate> kPostProcessors[] = {
    {"TemplateProcessing", ReadTemplate},
    {"ByteLevel", ReadByteLevelProcessor},
};

// --- Decoder -----------------------------------------------------------------
absl::Status ReadByteLevelDecoder(const JsonReader& step, HfDecoder* out) {
  out->byte_level = true;
  return step.RefuseOthers(
      {"type", "add_prefix_space", "trim_offsets", "use_regex"});
}

absl::Status ReadReplaceDecoder(const JsonReader& step, HfDecoder* out) {
  RETURN_IF_ERROR(step.RefuseOthers({"type", "pattern", "content"}));
  ASSIGN_OR_RETURN(SplitPattern pattern, ReadPattern(step));
  ASSIGN_OR_RETURN(std::string content, step.String("content", ""));
  std::string* const text = std::get_if<std::string>(&pattern);
  if (text == nullptr) return UnsupportedStep(step, "a regular expression");
  if (out->fused) return UnsupportedStep(step, "Replace after Fuse");
  out->replacements.emplace_back(std::move(*text), std::move(content));
  return absl::OkStatus();
}

absl::Status ReadByteFallback(const JsonReader& step, HfDecoder* out) {
  out->byte_fallback = true;
  return step.RefuseOthers({"type"});
}

absl::Status ReadFuse(const JsonReader& step, HfDecoder* out) {
  out->fused = true;
  return step.RefuseOthers({"type"});
}

absl::Status ReadStrip(const JsonReader& step, HfDecoder* out) {
  RETURN_IF_ERROR(step.RefuseOthers({"type", "content", "start", "stop"}));
  ASSIGN_OR_RETURN(const std::string content, step.String("content", ""));
  ASSIGN_OR_RETURN(const std::optional<int64_t> start, step.Int("start"));
  ASSIGN_OR_RETURN(const std::optional<int64_t> stop, step.Int("stop"));
  const bool nothing = start.value_or(0) == 0 && stop.value_or(0) == 0;
  if (nothing) return absl::OkStatus();
  if (!out->fused || content != " " || start != 1 || stop.value_or(0) != 0) {
    return UnsupportedStep(step, "Strip of more than one leading space");
  }
  out->strips_leading_space = true;
  return absl::OkStatus();
}

absl::Status ReadMetaspaceDecoder(const JsonReader& step, HfDecoder* out) {
  ASSIGN_OR_RETURN(const Metaspace options, ReadMetaspaceOptions(step));
  out->replacements.emplace_back(options.replacement, " ");
  out->strips_leading_space = options.scheme != PrependScheme::kNever;
  return absl::OkStatus();
}

constexpr StepKind<HfDecoder> kDecoders[] = {
    {"ByteLevel", ReadByteLevelDecoder},
    {"Replace", ReadReplaceDecoder},
    {"ByteFallback", ReadByteFallback},
    {"Fuse", ReadFuse},
    {"Strip", ReadStrip},
    {"Metaspace", ReadMetaspaceDecoder},
};

}  // namespace

absl::StatusOr<HfTemplate> ReadPostProcessor(const JsonReader& file) {
  HfTemplate out;
  RETURN_IF_ERROR(ReadSteps<HfTemplate>(file, "post_processor", "processors",
                                        kPostProcessors, &out));
  return out;
}

absl::StatusOr<HfDecoder> ReadDecoder(const JsonReader& file) {
  HfDecoder out;
  out.present = file.Find("decoder") != nullptr;
  RETURN_IF_ERROR(
      ReadSteps<HfDecoder>(file, "decoder", "decoders", kDecoders, &out));
  return out;
}

std::string HfDecoder::Decode(std::string_view token) const {
  if (byte_level) return FromByteLevel(token).value_or(std::string(token));
  std::string text(token);
  for (const auto& [pattern, content] : replacements) {
    absl::StrReplaceAll({{pattern, content}}, &text);
  }
  return text;
}

}  // namespace headrace
