#include "engine/weights/quantization_config.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/weights/compressed_tensors_config.h"
#include "engine/weights/file_error.h"
#include "engine/weights/metadata_reader.h"

namespace headrace {
namespace {

constexpr std::string_view kKey = "quantization_config";
constexpr int64_t kMaxGroupSize = int64_t{1} << 24;

// The first of these fields that is there, in lower case.
struct Choice {
  std::string_view key;
  std::string value;
};
absl::StatusOr<Choice> FirstOf(const MetadataReader& keys,
                               std::initializer_list<std::string_view> names,
                               Choice otherwise) {
  for (const std::string_view key : names) {
    ASSIGN_OR_RETURN(const auto value, keys.OptionalString(key));
    if (value.has_value()) return Choice{key, absl::AsciiStrToLower(*value)};
  }
  return otherwise;
}

absl::Status ReadGroupSize(const MetadataReader& keys,
                           QuantizationConfig& out) {
  ASSIGN_OR_RETURN(const auto size,
                   keys.OptionalInt("group_size", -1, kMaxGroupSize));
  if (size == 0) {
    return UnsupportedValue(keys, "group_size", "0",
                            "-1 (a whole row), 1 or more");
  }
  out.group_size = size.value_or(out.group_size);
  return absl::OkStatus();
}

absl::StatusOr<QuantizationConfig> ReadGptq(const MetadataReader& keys) {
  QuantizationConfig out = {.name = "GPTQ", .order = WordOrder::kGptq};
  ASSIGN_OR_RETURN(out.bits, keys.Int("bits"));
  if (out.bits != 4 && out.bits != 8) {
    return UnsupportedValue(keys, "bits", absl::StrCat(out.bits), "4, 8");
  }
  RETURN_IF_ERROR(ReadGroupSize(keys, out));
  ASSIGN_OR_RETURN(const auto marlin, keys.OptionalBool("is_marlin_format"));
  if (marlin.value_or(false)) {
    return UnsupportedValue(keys, "is_marlin_format", "true", "false");
  }
  ASSIGN_OR_RETURN(const Choice format,
                   FirstOf(keys, {"checkpoint_format", "format"},
                           {"checkpoint_format", "gptq"}));
  if (format.value != "gptq" && format.value != "gptq_v2") {
    return UnsupportedValue(keys, format.key, Quoted(format.value),
                            "\"gptq\", \"gptq_v2\"");
  }
  out.zeros_minus_one = format.value == "gptq";
  ASSIGN_OR_RETURN(const auto desc_act, keys.OptionalBool("desc_act"));
  out.desc_act = desc_act.value_or(false);
  ASSIGN_OR_RETURN(const nlohmann::ordered_json* overrides,
                   keys.OptionalObject("dynamic"));
  out.has_overrides = overrides != nullptr && !overrides->empty();
  return out;
}

absl::StatusOr<QuantizationConfig> ReadAwq(const MetadataReader& keys) {
  QuantizationConfig out = {.name = "AWQ", .order = WordOrder::kAwq};
  ASSIGN_OR_RETURN(out.bits, keys.Int("bits"));
  if (out.bits != 4) {
    return UnsupportedValue(keys, "bits", absl::StrCat(out.bits), "4");
  }
  RETURN_IF_ERROR(ReadGroupSize(keys, out));
  ASSIGN_OR_RETURN(const Choice version,
                   FirstOf(keys, {"version", "checkpoint_format", "format"},
                           {"version", "gemm"}));
  if (version.value != "gemm") {
    return UnsupportedValue(keys, version.key, Quoted(version.value),
                            "\"gemm\"");
  }
  ASSIGN_OR_RETURN(const Choice backend,
                   FirstOf(keys, {"backend"}, {"backend", "autoawq"}));
  if (backend.value == "llm-awq") {
    return UnsupportedValue(keys, backend.key, Quoted(backend.value),
                            "\"autoawq\"");
  }
  return out;
}

// A method is one function and one line.
struct Method {
  std::string_view name;  // as quant_method spells it
  absl::StatusOr<QuantizationConfig> (*read)(const MetadataReader& keys);
};
constexpr Method kMethods[] = {
    {"gptq", ReadGptq},
    {"awq", ReadAwq},
    {"compressed-tensors", ReadCompressedTensorsConfig}};

}  // namespace

absl::StatusOr<std::optional<QuantizationConfig>> ReadQuantizationConfig(
    const nlohmann::ordered_json& config) {
  ASSIGN_OR_RETURN(const nlohmann::ordered_json* object,
                   MetadataReader(config, "").OptionalObject(kKey));
  if (object == nullptr) return std::nullopt;
  const MetadataReader keys(*object, "", absl::StrCat(std::string(kKey), "."));
  ASSIGN_OR_RETURN(const auto name, keys.OptionalString("quant_method"));
  std::vector<std::string> supported;
  for (const Method& method : kMethods) {
    if (name == method.name) {
      ASSIGN_OR_RETURN(QuantizationConfig read, method.read(keys));
      return read;
    }
    supported.push_back(Quoted(method.name));
  }
  return UnsupportedValue(keys, "quant_method",
                          name.has_value() ? Quoted(*name) : "missing",
                          absl::StrJoin(supported, ", "));
}

absl::Status UnsupportedValue(const MetadataReader& keys, std::string_view key,
                              std::string_view value,
                              std::string_view supported) {
  return absl::InvalidArgumentError(absl::StrCat(
      "config.json: ", keys.FullKey(key), " is ", std::string(value),
      "; supported: ", std::string(supported)));
}

}  // namespace headrace
