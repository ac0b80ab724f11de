#include "engine/architectures/registry.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/architectures/llama.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace headrace {
namespace {

using Describe = absl::StatusOr<DecoderDescription> (*)(const WeightSource&);

// The name that a file gives its architecture: general.architecture of GGUF,
// architectures[0] of config.json, the format itself for llama2.c.
struct ArchitectureEntry {
  WeightFormat format;
  std::string_view name;
  Describe describe;
};

constexpr std::array<ArchitectureEntry, 4> kArchitectures = {{
    {WeightFormat::kGguf, "llama", DescribeLlama},
    {WeightFormat::kSafetensors, "LlamaForCausalLM", DescribeLlama},
    {WeightFormat::kSafetensors, "MistralForCausalLM", DescribeLlama},
    {WeightFormat::kLlama2c, "llama2.c", DescribeLlama},
}};

absl::StatusOr<std::string> ArchitectureName(const WeightSource& source) {
  const nlohmann::ordered_json& metadata = source.metadata();
  switch (source.format()) {
    case WeightFormat::kGguf: {
      const auto found = metadata.find("general.architecture");
      if (found != metadata.end() && found->is_string()) {
        return found->get<std::string>();
      }
      return absl::DataLossError("general.architecture is missing");
    }
    case WeightFormat::kSafetensors: {
      const auto config = metadata.find("config");
      if (config != metadata.end() && config->is_object()) {
        const auto names = config->find("architectures");
        if (names != config->end() && names->is_array() && !names->empty() &&
            names->front().is_string()) {
          return names->front().get<std::string>();
        }
      }
      return absl::DataLossError(
          "config.json with architectures is missing beside the weights");
    }
    case WeightFormat::kLlama2c:
      return std::string("llama2.c");
  }
  return absl::InternalError("unknown weight format");
}

}  // namespace

absl::StatusOr<DecoderDescription> DescribeModel(const WeightSource& source) {
  ASSIGN_OR_RETURN(const std::string name, ArchitectureName(source));
  std::vector<std::string> supported;
  for (const ArchitectureEntry& entry : kArchitectures) {
    if (entry.format != source.format()) continue;
    if (entry.name == name) return entry.describe(source);
    supported.emplace_back(entry.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "architecture ", name, " is not supported in ", source.format_name(),
      " files; supported: ", absl::StrJoin(supported, ", ")));
}

}  // namespace headrace
