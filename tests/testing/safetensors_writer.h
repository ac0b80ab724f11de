// Writes .safetensors files. Source of the format: huggingface/safetensors,
// README.md.
#ifndef HEADRACE_TESTS_TESTING_SAFETENSORS_WRITER_H_
#define HEADRACE_TESTS_TESTING_SAFETENSORS_WRITER_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/tensor_view.h"

namespace headrace {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the file spells it: "F32", "BF16", "I64"
  Shape shape;
  std::string bytes;
};

// The whole file: data in the order given, header padded with spaces to a
// multiple of 8 bytes.
std::string SerializeSafetensors(std::span<const SafetensorsEntry> entries);

// A file from a header of any text and any data, for malformed ones.
std::string SafetensorsFile(std::string_view header, std::string_view data);

// "model-00001-of-00002.safetensors" for ("model", 0, 2, ".safetensors").
std::string ShardName(std::string_view prefix, size_t index, size_t count,
                      std::string_view extension);

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_SAFETENSORS_WRITER_H_
