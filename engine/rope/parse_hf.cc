#include "engine/rope/parse_hf.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/rope/hf_rope_reader.h"
#include "engine/rope/json_fields.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// Does the object hold one set of parameters per layer type? Flat parameters
// are never objects themselves.
bool IsNested(const Json& config, const Json& rope) {
  const Json* layer_types = FindValue({config, ""}, "layer_types");
  return std::any_of(rope.begin(), rope.end(),
                     [](const Json& value) { return value.is_object(); }) ||
         (layer_types != nullptr && layer_types->is_array() &&
          std::any_of(layer_types->begin(), layer_types->end(),
                      [&](const Json& layer_type) {
                        return layer_type.is_string() &&
                               rope.contains(layer_type.get<std::string>());
                      }));
}

// One encoding for all layers, or an error that says which layer types differ.
absl::StatusOr<ParsedRope> ReadNested(const Json& config,
                                      const HfRopeDefaults& defaults,
                                      const JsonScope& scope) {
  std::optional<ParsedRope> common;
  std::string common_type;
  for (const auto& [layer_type, value] : scope.object.items()) {
    const std::string path = scope.PathOf(layer_type);
    if (!value.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " must be an object; is ", value.dump(),
          ": layers without "
          "a rotary encoding beside layers with one are not supported"));
    }
    ASSIGN_OR_RETURN(
        ParsedRope parsed,
        HfRopeReader(config, defaults, {value, absl::StrCat(path, ".")},
                     HfRopeForm::kByLayer)
            .Read());
    if (common.has_value() && !(common->params == parsed.params)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, " must equal ", scope.PathOf(common_type),
          ": a rotary encoding that differs by layer is not supported"));
    }
    if (!common.has_value()) common_type = layer_type;
    common = std::move(parsed);
  }
  return *std::move(common);
}

}  // namespace

absl::StatusOr<ParsedRope> RopeParamsFromHfConfig(
    const Json& config, const HfRopeDefaults& defaults) {
  const JsonScope top{config, ""};
  if (!config.is_object()) {
    return absl::InvalidArgumentError("config.json must hold an object");
  }
  static const Json* const kEmpty = new Json(Json::object());
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const Json* rope = FindValue(top, key);
    if (rope == nullptr) continue;
    if (!rope->is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, " must be an object or null; is ", rope->dump()));
    }
    if (rope->empty()) continue;
    const JsonScope scope{*rope, absl::StrCat(key, ".")};
    if (IsNested(config, *rope)) return ReadNested(config, defaults, scope);
    return HfRopeReader(config, defaults, scope, HfRopeForm::kFlat).Read();
  }
  return HfRopeReader(config, defaults, {*kEmpty, "rope_scaling."},
                      HfRopeForm::kFlat)
      .Read();
}

}  // namespace headrace
