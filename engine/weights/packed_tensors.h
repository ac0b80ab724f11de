// The tensors of a checkpoint whose matrices are packed (GPTQ, AWQ): finds the
// parts of each among what its files hold, and makes one tensor of them.
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

// Whether a tensor of this name is part of a packed matrix.
bool IsPackedPart(std::string_view name);

// Adds the tensor X.weight for each X.qweight, and to the warnings which of
// them are kept in float32. What `tensors` point into is in `parts.files`.
// Errors: as PackedMatrix::Create(); DATA_LOSS for parts without X.qweight or
// two of one name.
absl::Status AddPackedTensors(std::span<const RawTensor> tensors,
                              const QuantizationConfig& config,
                              SourceParts& parts);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_PACKED_TENSORS_H_
