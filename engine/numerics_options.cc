#include "engine/numerics_options.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace headrace {

absl::Status ReadNumerics(std::string_view numerics,
                          std::string_view kv_cache_dtype,
                          EngineOptions& options) {
  if (numerics != "exact" && numerics != "fast") {
    return absl::InvalidArgumentError(
        absl::StrCat("--numerics must be exact or fast; is \"",
                     std::string(numerics), "\""));
  }
  options.numerics = numerics == "exact" ? Numerics::kExact : Numerics::kFast;
  options.kv_cache_dtype.reset();
  if (kv_cache_dtype == "auto") return absl::OkStatus();
  for (const KvCacheDtypeLayout& layout : kKvCacheDtypes) {
    if (layout.name == kv_cache_dtype) options.kv_cache_dtype = layout.dtype;
  }
  if (!options.kv_cache_dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kv_cache_dtype must be auto, f32, bf16, int16 or int8; "
                     "is \"",
                     std::string(kv_cache_dtype), "\""));
  }
  return absl::OkStatus();
}

}  // namespace headrace
