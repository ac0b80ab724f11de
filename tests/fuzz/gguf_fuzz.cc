// ParseGguf() on any bytes: no crash, and what it accepts is inside the file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "absl/status/statusor.h"
#include "engine/tensor/block_formats.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/tensor_view.h"
#include "engine/weights/file_error.h"
#include "engine/weights/gguf_reader.h"
#include "engine/weights/llama2c.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/gguf_writer.h"

namespace headrace {
namespace {

void CheckTensor(std::span<const std::byte> file, const GgufTensorInfo& info) {
  CHECK_LE(info.offset, file.size());
  CHECK_LE(static_cast<uint64_t>(info.bytes), file.size() - info.offset);
  const TensorView view{info.dtype, info.shape, file.data() + info.offset};
  CHECK_EQ(NumElements(view.shape) / view.shape.back() * view.row_bytes(),
           info.bytes);
  // The last row: its end is the end of the tensor.
  std::vector<float> row(view.shape.back());
  DequantizeRow(view.dtype, view.data + info.bytes - view.row_bytes(), row);
}

GgufWriter AllValueTypes() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama");
  writer.Set("u8", uint8_t{1});
  writer.Set("i8", int8_t{-1});
  writer.Set("u16", uint16_t{2});
  writer.Set("i16", int16_t{-2});
  writer.Set("u32", uint32_t{3});
  writer.Set("i32", int32_t{-3});
  writer.Set("f32", 0.5f);
  writer.Set("bool", true);
  writer.Set("u64", uint64_t{4});
  writer.Set("i64", int64_t{-4});
  writer.Set("f64", 0.25);
  writer.Set("words", std::vector<std::string>{"a", "", "é"});
  writer.Set("numbers", std::vector<int32_t>{1, -2, 3});
  return writer;
}

GgufWriter AllDtypes() {
  GgufWriter writer;
  writer.Set("general.alignment", uint32_t{64});
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0,
        DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K,
        DType::kQ6_K}) {
    const int64_t columns = std::max<int64_t>(32, LayoutOf(dtype).elements);
    writer.AddTensor(
        LayoutOf(dtype).name, dtype, {2, columns},
        std::vector<float>(static_cast<size_t>(2 * columns), 0.5f));
  }
  return writer;
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  GgufWriter both = AllDtypes();
  both.Set("general.name", "both");
  both.set_version(2);
  return {AllValueTypes().Serialize(), AllDtypes().Serialize(),
          both.Serialize(), GgufWriter().Serialize()};
}

}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(
      reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(headrace::LooksLikeLlama2c(file));
  const absl::StatusOr<headrace::GgufContents> contents =
      headrace::ParseGguf(file, "fuzz.gguf");
  if (!contents.ok()) {
    CHECK(headrace::IsUtf8(std::string(contents.status().message())));
    return 0;
  }
  CHECK(contents->metadata.is_object());
  for (const headrace::GgufTensorInfo& info : contents->tensors) {
    headrace::CheckTensor(file, info);
  }
  return 0;
}
