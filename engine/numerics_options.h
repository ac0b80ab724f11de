// The words of --numerics and --kv_cache_dtype, of every program that loads an
// engine.
#ifndef HEADRACE_ENGINE_NUMERICS_OPTIONS_H_
#define HEADRACE_ENGINE_NUMERICS_OPTIONS_H_

#include <string_view>

#include "absl/status/status.h"
#include "engine/engine.h"

namespace headrace {

inline constexpr const char* kNumericsHelp =
    "exact: float32 activations on dequantised weights. fast: int8 activations "
    "on weights of 4 to 8 bits.";
inline constexpr const char* kKvCacheDtypeHelp =
    "What keys and values are kept as: f32, bf16, int16, int8, or auto: "
    "f32 with exact numerics, int16 with fast.";

// Sets options.numerics and options.kv_cache_dtype. Errors: INVALID_ARGUMENT
// naming the flag and what it may be.
absl::Status ReadNumerics(std::string_view numerics,
                          std::string_view kv_cache_dtype,
                          EngineOptions& options);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_NUMERICS_OPTIONS_H_
