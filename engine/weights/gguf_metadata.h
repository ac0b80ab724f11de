// The key-value pairs of a GGUF file.
#ifndef HEADRACE_ENGINE_WEIGHTS_GGUF_METADATA_H_
#define HEADRACE_ENGINE_WEIGHTS_GGUF_METADATA_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/weights/gguf_cursor.h"
#include "nlohmann/json.hpp"

namespace headrace {

// Key length, one byte of key, type, one byte of value.
inline constexpr uint64_t kMinGgufKeyValueBytes = 8 + 1 + 4 + 1;

// Takes `num_keys` pairs, which CheckCount() has bounded, as an object in the
// file's order. Errors: DATA_LOSS, naming key, element and offset.
absl::StatusOr<nlohmann::ordered_json> TakeGgufMetadata(uint64_t num_keys,
                                                        GgufCursor& cursor);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_GGUF_METADATA_H_
