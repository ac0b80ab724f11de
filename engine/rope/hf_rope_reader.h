// Reads one set of RoPE parameters out of a Hugging Face config.json: the keys
// of one scaling object, and those at the top level that it leaves to them.
#ifndef HEADRACE_ENGINE_ROPE_HF_ROPE_READER_H_
#define HEADRACE_ENGINE_ROPE_HF_ROPE_READER_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/rope/json_fields.h"
#include "engine/rope/parse_hf.h"
#include "engine/rope/parsed_rope.h"
#include "engine/rope/rope_fields.h"
#include "nlohmann/json.hpp"

namespace headrace {

enum class HfRopeForm : uint8_t {
  kFlat,     // one set of parameters for all layers
  kByLayer,  // one entry of an object nested by layer type
};

// Reads one config.json; `scope` is the object with the scaling's own keys. All
// of them outlive it.
class HfRopeReader {
 public:
  HfRopeReader(const nlohmann::ordered_json& config,
               const HfRopeDefaults& defaults, JsonScope scope, HfRopeForm form)
      : config_{config, ""},
        defaults_(defaults),
        scope_(std::move(scope)),
        form_(form) {}

  absl::StatusOr<ParsedRope> Read();

 private:
  absl::Status ReadType();
  absl::Status ReadTheta();
  absl::Status ReadHead();
  absl::Status ReadRotaryDim();
  absl::Status ReadPositions();
  absl::Status ReadMethodFields();
  absl::Status ReadField(const RopeField& field);
  absl::Status FoldAlpha();
  absl::Status RefuseLocalBase();
  void WarnOfUnusedKeys();
  void WarnOfFactorMismatch();
  absl::Status Validate() const;

  RopeParams& params() { return parsed_.params; }
  void Warn(std::string warning) {
    parsed_.warnings.push_back(std::move(warning));
  }
  // The first of `keys` that the top level has.
  absl::StatusOr<std::optional<int64_t>> ReadConfigInteger(
      std::initializer_list<std::string_view> keys);
  // A number of the scaling's object, or else the first of `keys` at the top.
  absl::StatusOr<std::optional<double>> ReadOwnOrConfigNumber(
      std::string_view own_key,
      std::initializer_list<std::string_view> config_keys);
  std::string PathOfField(std::string_view field) const;

  JsonScope config_;
  HfRopeDefaults defaults_;
  JsonScope scope_;
  HfRopeForm form_;
  ParsedRope parsed_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ROPE_HF_ROPE_READER_H_
