// Writes GGUF v3 (or v2) files, good ones and bad ones. Source of the format:
// ggml-org/ggml docs/gguf.md.
#ifndef HEADRACE_TESTS_TESTING_GGUF_WRITER_H_
#define HEADRACE_TESTS_TESTING_GGUF_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor_view.h"

namespace headrace {

// A metadata value; the C++ type is the stored type (uint32_t: u32, double:
// f64, a vector: an array of that type).
using GgufValue =
    std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float,
                 bool, std::string, uint64_t, int64_t, double,
                 std::vector<uint32_t>, std::vector<int32_t>,
                 std::vector<float>, std::vector<std::string>>;

// ggml's number of a dtype, as tensor infos hold it.
uint32_t GgmlTypeId(DType dtype);

// Thread-compatible. Order of keys and tensors is the order they were added.
class GgufWriter {
 public:
  void set_version(uint32_t version) { version_ = version; }

  // Adds a key, or replaces its value.
  void Set(std::string_view key, GgufValue value);
  void Remove(std::string_view key);

  // `shape` is row-major, [out, in]; the file lists it the other way round.
  void AddTensor(std::string_view name, DType dtype, const Shape& shape,
                 std::span<const float> values);
  // Any ggml type number and any bytes.
  void AddRawTensor(std::string_view name, uint32_t ggml_type,
                    const Shape& shape, std::string bytes);

  // The whole file. Tensor data is aligned to general.alignment when that key
  // is a u32, else to 32.
  std::string Serialize() const;

 private:
  struct RawTensor {
    std::string name;
    uint32_t ggml_type;
    Shape shape;
    std::string bytes;
  };

  uint32_t version_ = 3;
  std::vector<std::pair<std::string, GgufValue>> values_;
  std::vector<RawTensor> tensors_;
};

}  // namespace headrace

#endif  // HEADRACE_TESTS_TESTING_GGUF_WRITER_H_
