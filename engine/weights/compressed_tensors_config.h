// quantization_config as compressed-tensors writes it (llm-compressor, vLLM):
// groups of modules, each with what its weights and activations are.
#ifndef HEADRACE_ENGINE_WEIGHTS_COMPRESSED_TENSORS_CONFIG_H_
#define HEADRACE_ENGINE_WEIGHTS_COMPRESSED_TENSORS_CONFIG_H_

#include "absl/status/statusor.h"
#include "engine/weights/metadata_reader.h"
#include "engine/weights/quantization_config.h"

namespace headrace {

// Checks that every group is of a kind that is supported: integers of 4 or 8
// bits with scales of channels, groups of inputs or the tensor, as bytes
// (int-quantized) or in words (pack-quantized); activations are left as they
// are or quantised as they come, symmetrically, token by token. Which modules
// belong to which group, and their bits and group sizes, their tensors tell.
//
// Errors: as ReadQuantizationConfig().
absl::StatusOr<QuantizationConfig> ReadCompressedTensorsConfig(
    const MetadataReader& keys);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_COMPRESSED_TENSORS_CONFIG_H_
