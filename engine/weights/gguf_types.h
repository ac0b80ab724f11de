// ggml's tensor types: their numbers, their names, and which of them we read.
#ifndef HEADRACE_ENGINE_WEIGHTS_GGUF_TYPES_H_
#define HEADRACE_ENGINE_WEIGHTS_GGUF_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/tensor/dtype.h"

namespace headrace {

struct GgmlType {
  std::string_view name;
  uint32_t id;
  std::optional<DType> dtype;  // nullopt: known, not supported
};

// Null for a number that ggml (2026-02) does not define.
const GgmlType* FindGgmlType(uint32_t id);

// "F32, F16, …", for messages.
std::string SupportedGgmlTypes();

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_GGUF_TYPES_H_
