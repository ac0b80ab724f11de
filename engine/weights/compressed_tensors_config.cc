#include "engine/weights/compressed_tensors_config.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/weights/file_error.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;
using Choices = std::initializer_list<std::string_view>;

// The string under a key, one of those supported; what it is if absent.
absl::Status CheckString(const MetadataReader& keys, std::string_view key,
                         std::string_view otherwise, Choices supported) {
  ASSIGN_OR_RETURN(const auto stored, keys.OptionalString(key));
  const std::string value =
      absl::AsciiStrToLower(stored.value_or(std::string(otherwise)));
  if (std::ranges::find(supported, value) != supported.end()) {
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const std::string_view name : supported) names.push_back(Quoted(name));
  return UnsupportedValue(keys, key, Quoted(value), absl::StrJoin(names, ", "));
}

absl::Status CheckBool(const MetadataReader& keys, std::string_view key,
                       bool otherwise, bool supported) {
  ASSIGN_OR_RETURN(const auto stored, keys.OptionalBool(key));
  if (stored.value_or(otherwise) == supported) return absl::OkStatus();
  return UnsupportedValue(keys, key, supported ? "false" : "true",
                          supported ? "true" : "false");
}

// Of activations or the cache: nothing.
absl::Status CheckAbsent(const MetadataReader& keys, std::string_view key) {
  const Json* value = keys.Find(key);
  if (value == nullptr || value->empty()) return absl::OkStatus();
  return UnsupportedValue(keys, key, "there", "null");
}

// The strategy, or what group_size says of it.
absl::Status CheckStrategy(const MetadataReader& keys) {
  ASSIGN_OR_RETURN(const auto size,
                   keys.OptionalInt("group_size", -1, int64_t{1} << 24));
  const int64_t group_size = size.value_or(0);
  return CheckString(keys, "strategy",
                     group_size > 0   ? "group"
                     : group_size < 0 ? "channel"
                                      : "tensor",
                     {"channel", "group", "tensor"});
}

absl::StatusOr<int64_t> CheckWeights(const MetadataReader& keys) {
  RETURN_IF_ERROR(CheckString(keys, "type", "int", {"int"}));
  ASSIGN_OR_RETURN(const auto bits, keys.OptionalInt("num_bits"));
  const int64_t num_bits = bits.value_or(8);
  if (num_bits != 4 && num_bits != 8) {
    return UnsupportedValue(keys, "num_bits", absl::StrCat(num_bits), "4, 8");
  }
  RETURN_IF_ERROR(CheckStrategy(keys));
  RETURN_IF_ERROR(
      CheckBool(keys, "dynamic", /*otherwise=*/false, /*supported=*/false));
  return num_bits;
}

absl::Status CheckActivations(const MetadataReader& keys) {
  RETURN_IF_ERROR(CheckString(keys, "type", "int", {"int"}));
  ASSIGN_OR_RETURN(const auto bits, keys.OptionalInt("num_bits"));
  const int64_t num_bits = bits.value_or(8);
  if (num_bits != 8) {
    return UnsupportedValue(keys, "num_bits", absl::StrCat(num_bits), "8");
  }
  RETURN_IF_ERROR(
      CheckBool(keys, "dynamic", /*otherwise=*/false, /*supported=*/true));
  RETURN_IF_ERROR(
      CheckBool(keys, "symmetric", /*otherwise=*/true, /*supported=*/true));
  return CheckString(keys, "strategy", "tensor", {"token"});
}

// One of config_groups: its weights' bits, and whether it has activations in
// int8.
absl::Status ReadGroup(const Json& group, const std::string& path,
                       QuantizationConfig& out) {
  const MetadataReader keys(group, "", path);
  RETURN_IF_ERROR(
      CheckString(keys, "format", "int-quantized",
                  {"int-quantized", "naive-quantized", "pack-quantized"}));
  ASSIGN_OR_RETURN(const Json* inputs,
                   keys.OptionalObject("input_activations"));
  if (inputs != nullptr) {
    RETURN_IF_ERROR(CheckActivations(MetadataReader(
        *inputs, "", absl::StrCat(keys.FullKey("input_activations"), "."))));
    out.int8_activations = true;
  }
  RETURN_IF_ERROR(CheckAbsent(keys, "output_activations"));
  ASSIGN_OR_RETURN(const Json* weights, keys.OptionalObject("weights"));
  if (weights == nullptr) {
    return UnsupportedValue(keys, "weights", "missing", "an object");
  }
  ASSIGN_OR_RETURN(
      out.bits, CheckWeights(MetadataReader(
                    *weights, "", absl::StrCat(keys.FullKey("weights"), "."))));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<QuantizationConfig> ReadCompressedTensorsConfig(
    const MetadataReader& keys) {
  // Of mixed-precision, each group has a format of its own.
  RETURN_IF_ERROR(CheckString(keys, "format", "missing",
                              {"int-quantized", "naive-quantized",
                               "pack-quantized", "mixed-precision"}));
  RETURN_IF_ERROR(
      CheckString(keys, "quantization_status", "compressed", {"compressed"}));
  RETURN_IF_ERROR(CheckAbsent(keys, "kv_cache_scheme"));
  ASSIGN_OR_RETURN(const Json* sparsity,
                   keys.OptionalObject("sparsity_config"));
  if (sparsity != nullptr && !sparsity->empty()) {
    RETURN_IF_ERROR(CheckString(
        MetadataReader(*sparsity, "",
                       absl::StrCat(keys.FullKey("sparsity_config"), ".")),
        "format", "missing", {"dense"}));
  }
  ASSIGN_OR_RETURN(const Json* groups, keys.OptionalObject("config_groups"));
  if (groups == nullptr || groups->empty()) {
    return UnsupportedValue(keys, "config_groups", "missing",
                            "an object with a group");
  }
  QuantizationConfig out = {.name = "compressed-tensors",
                            .order = WordOrder::kRows,
                            .group_size = -1,
                            .has_overrides = true};
  const MetadataReader by_name(
      *groups, "", absl::StrCat(keys.FullKey("config_groups"), "."));
  for (const auto& [name, group] : groups->items()) {
    const std::string shown = absl::CHexEscape(name);
    if (!group.is_object()) {
      return UnsupportedValue(by_name, shown, group.type_name(), "an object");
    }
    RETURN_IF_ERROR(
        ReadGroup(group, absl::StrCat(by_name.FullKey(shown), "."), out));
  }
  return out;
}

}  // namespace headrace
