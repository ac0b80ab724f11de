// The tensors of a checkpoint whose matrices are packed (GPTQ, AWQ,
// compressed-tensors): finds the parts of each among what its files hold, and
// makes one tensor of them.
#ifndef HEADRACE_ENGINE_WEIGHTS_PACKED_TENSORS_H_
#define HEADRACE_ENGINE_WEIGHTS_PACKED_TENSORS_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/weights/mapped_source.h"
#include "engine/weights/packed_matrix.h"
#include "engine/weights/quantization_config.h"

namespace headrace {

// Whether a tensor of this name and dtype is part of a packed matrix.
bool IsPackedPart(const QuantizationConfig& config, std::string_view name,
                  std::string_view dtype_name);

// Adds the tensor X.weight for each matrix, and to the warnings which of
// them are kept in float32. What `tensors` point into is in `parts.files`.
// Errors: as PackedMatrix::Create(); DATA_LOSS for parts without their
// numbers or two of one name.
absl::Status AddPackedTensors(std::span<const RawTensor> tensors,
                              const QuantizationConfig& config,
                              SourceParts& parts);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_PACKED_TENSORS_H_
