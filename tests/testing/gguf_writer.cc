#include "tests/testing/gguf_writer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor_view.h"
#include "tests/testing/block_encoder.h"

namespace headrace {
namespace {

constexpr uint32_t kArrayTypeId = 9;

template <typename T>
void Append(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendString(std::string& out, std::string_view text) {
  Append(out, static_cast<uint64_t>(text.size()));
  out.append(text);
}

// The format's number of a C++ type.
template <typename T>
constexpr uint32_t ValueTypeId() {
  if constexpr (std::is_same_v<T, uint8_t>) return 0;
  if constexpr (std::is_same_v<T, int8_t>) return 1;
  if constexpr (std::is_same_v<T, uint16_t>) return 2;
  if constexpr (std::is_same_v<T, int16_t>) return 3;
  if constexpr (std::is_same_v<T, uint32_t>) return 4;
  if constexpr (std::is_same_v<T, int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::string>) return 8;
  if constexpr (std::is_same_v<T, uint64_t>) return 10;
  if constexpr (std::is_same_v<T, int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
}

template <typename T>
void AppendScalar(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    AppendString(out, value);
  } else {
    Append(out, value);
  }
}

template <typename T>
void AppendTyped(std::string& out, const T& value) {
  Append(out, ValueTypeId<T>());
  AppendScalar(out, value);
}

template <typename T>
void AppendTyped(std::string& out, const std::vector<T>& values) {
  Append(out, kArrayTypeId);
  Append(out, ValueTypeId<T>());
  Append(out, static_cast<uint64_t>(values.size()));
  for (const T& value : values) AppendScalar(out, value);
}

void PadTo(std::string& out, size_t alignment) {
  out.append((alignment - out.size() % alignment) % alignment, '\0');
}

}  // namespace

uint32_t GgmlTypeId(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ4_1:
      return 3;
    case DType::kQ5_0:
      return 6;
    case DType::kQ5_1:
      return 7;
    case DType::kQ8_0:
      return 8;
    case DType::kQ4_K:
      return 12;
    case DType::kQ5_K:
      return 13;
    case DType::kQ6_K:
      return 14;
    case DType::kBF16:
      return 30;
    case DType::kQ4_Z:  // no type of ggml's
    case DType::kQ8_Z:
    case DType::kQ8_C:
      break;
  }
  return ~0u;
}

void GgufWriter::Set(std::string_view key, GgufValue value) {
  for (auto& [known, stored] : values_) {
    if (known == key) {
      stored = std::move(value);
      return;
    }
  }
  values_.emplace_back(key, std::move(value));
}

void GgufWriter::Remove(std::string_view key) {
  std::erase_if(values_,
                [key](const auto& entry) { return entry.first == key; });
}

void GgufWriter::AddTensor(std::string_view name, DType dtype,
                           const Shape& shape, std::span<const float> values) {
  AddRawTensor(name, GgmlTypeId(dtype), shape, EncodeBlocks(dtype, values));
}

void GgufWriter::AddRawTensor(std::string_view name, uint32_t ggml_type,
                              const Shape& shape, std::string bytes) {
  tensors_.push_back({std::string(name), ggml_type, shape, std::move(bytes)});
}

std::string GgufWriter::Serialize() const {
  size_t alignment = 32;
  std::string out = "GGUF";
  Append(out, version_);
  Append(out, static_cast<uint64_t>(tensors_.size()));
  Append(out, static_cast<uint64_t>(values_.size()));
  for (const auto& [key, value] : values_) {
    AppendString(out, key);
    std::visit([&out](const auto& v) { AppendTyped(out, v); }, value);
    if (key == "general.alignment" && std::holds_alternative<uint32_t>(value)) {
      alignment = std::max(1u, std::get<uint32_t>(value));
    }
  }
  std::string data;
  for (const RawTensor& tensor : tensors_) {
    PadTo(data, alignment);
    AppendString(out, tensor.name);
    Append(out, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i > 0; --i) {
      Append(out, static_cast<uint64_t>(tensor.shape[i - 1]));
    }
    Append(out, tensor.ggml_type);
    Append(out, static_cast<uint64_t>(data.size()));
    data += tensor.bytes;
  }
  PadTo(out, alignment);
  return out + data;
}

}  // namespace headrace
