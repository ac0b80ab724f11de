// What config.json says of weights that are packed several to a word:
// quantization_config, as transformers writes and reads it.
#ifndef HEADRACE_ENGINE_WEIGHTS_QUANTIZATION_CONFIG_H_
#define HEADRACE_ENGINE_WEIGHTS_QUANTIZATION_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/weights/metadata_reader.h"
#include "nlohmann/json.hpp"

namespace headrace {

// Where the numbers lie that share a word: neighbours along a column's inputs,
// or along its row's outputs in an order of their own; or (compressed-tensors)
// neighbours along an output's inputs, where that output is a row of words.
enum class WordOrder : uint8_t { kGptq, kAwq, kRows };

struct QuantizationConfig {
  std::string_view name;  // "GPTQ", "AWQ", "compressed-tensors"
  WordOrder order = WordOrder::kGptq;
  int64_t bits = 4;          // 4 or 8
  int64_t group_size = 128;  // inputs that share a scale; -1: all of them
  // Inputs were put into groups by their importance, which X.g_idx tells.
  bool desc_act = false;
  // Some modules have other bits or group sizes, which their shapes tell.
  bool has_overrides = false;
  // Activations are meant to be rounded to 8 bits, each row as a whole.
  bool int8_activations = false;
  // A stored zero point is one too small (in GPTQ's first format).
  bool zeros_minus_one = false;
};

// Nullopt for a config.json without quantization_config.
//
// Errors: INVALID_ARGUMENT for what is not supported, naming the field, its
// value and what is; DATA_LOSS for a value of the wrong type.
// Source: transformers 4.57 utils/quantization_config.py (GPTQConfig,
// AwqConfig); GPTQModel 5 quantization/config.py; AutoAWQ 0.2.9
// models/_config.py; compressed-tensors 0.12.2 quantization/quant_config.py,
// quant_scheme.py, quant_args.py.
absl::StatusOr<std::optional<QuantizationConfig>> ReadQuantizationConfig(
    const nlohmann::ordered_json& config);

// INVALID_ARGUMENT for a value of quantization_config that is not supported.
absl::Status UnsupportedValue(const MetadataReader& keys, std::string_view key,
                              std::string_view value,
                              std::string_view supported);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_QUANTIZATION_CONFIG_H_
