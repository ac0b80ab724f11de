// GGUF bytes to metadata and tensor places. Knows nothing of files on disk or
// of split sets (gguf.h does): what fuzzers and tests feed.
#ifndef HEADRACE_ENGINE_WEIGHTS_GGUF_READER_H_
#define HEADRACE_ENGINE_WEIGHTS_GGUF_READER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor_view.h"
#include "nlohmann/json.hpp"

namespace headrace {

struct GgufTensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;          // row-major: the file's dims reversed
  uint64_t offset = 0;  // from the start of the file
  int64_t bytes = 0;    // offset + bytes is inside the file
};

struct GgufContents {
  uint32_t version = 0;
  // Keys in the file's order. Integers are exact to 64 bits; f32 and f64 are
  // doubles; strings are UTF-8.
  nlohmann::ordered_json metadata;
  std::vector<GgufTensorInfo> tensors;  // in the file's order
};

// Parses a whole GGUF file, version 2 or 3, little-endian. Memory used is
// bounded by a small multiple of `file.size()`, whatever the file claims (the
// worst is a JSON value of 16 bytes for each element of a byte array).
//
// Errors: DATA_LOSS naming `file_name`, the offset, and the key or tensor;
// UNIMPLEMENTED naming a tensor of a ggml type that is not supported.
// Source: ggml-org/ggml docs/gguf.md and src/gguf.cpp (2026-02).
absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> file,
                                       std::string_view file_name);

// Whether a file begins as GGUF does.
bool HasGgufMagic(std::span<const std::byte> file);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_GGUF_READER_H_
