// From a model on disk to the description of its decoder. An architecture is
// one file and one line in the table of registry.cc.
#ifndef HEADRACE_ENGINE_ARCHITECTURES_REGISTRY_H_
#define HEADRACE_ENGINE_ARCHITECTURES_REGISTRY_H_

#include "absl/status/statusor.h"
#include "engine/model/decoder_description.h"
#include "engine/weights/weight_source.h"

namespace headrace {

// Errors: DATA_LOSS for what contradicts itself or is missing, naming key or
// tensor; INVALID_ARGUMENT for an architecture that is not supported, naming
// it and those that are.
absl::StatusOr<DecoderDescription> DescribeModel(const WeightSource& source);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_ARCHITECTURES_REGISTRY_H_
