// PackedMatrix on the tensors of any safetensors file: no crash, and every row
// of what is accepted can be made.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "absl/status/statusor.h"
#include "engine/weights/file_error.h"
#include "engine/weights/packed_matrix.h"
#include "engine/weights/quantization_config.h"
#include "engine/weights/safetensors_reader.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/safetensors_writer.h"

namespace headrace {
namespace {

const QuantizationConfig kConfigs[] = {
    {.name = "GPTQ", .bits = 4, .group_size = 32, .zeros_minus_one = true},
    {.name = "GPTQ", .bits = 8, .group_size = -1},
    {.name = "GPTQ", .bits = 4, .group_size = 16, .has_overrides = true},
    {.name = "AWQ", .order = WordOrder::kAwq, .group_size = 32},
    {.name = "rows",
     .order = WordOrder::kRows,
     .group_size = -1,
     .has_overrides = true}};

std::string Seed(const Shape& qweight, int64_t groups, int64_t words,
                 const Shape& g_idx) {
  const auto zeros = [](const Shape& shape, int64_t bytes) {
    return std::string(static_cast<size_t>(NumElements(shape) * bytes), '\0');
  };
  const Shape qzeros = {groups, words};
  const Shape scales = {groups, words * 8};
  return SerializeSafetensors(
      std::vector<SafetensorsEntry>{{"q", "I32", qweight, zeros(qweight, 4)},
                                    {"z", "I32", qzeros, zeros(qzeros, 4)},
                                    {"s", "F16", scales, zeros(scales, 2)},
                                    {"g", "I32", g_idx, zeros(g_idx, 4)}});
}

// Of rows: bytes, or words if there is a shape.
std::string SeedOfRows(SafetensorsEntry weight, SafetensorsEntry zeros,
                       const std::vector<SafetensorsEntry>& shape) {
  std::vector<SafetensorsEntry> parts = {
      std::move(weight),
      std::move(zeros),
      {"s", "F32", {8, 1}, std::string(32, 'A')}};
  parts.insert(parts.end(), shape.begin(), shape.end());
  return SerializeSafetensors(parts);
}

void MakeAllRows(const PackedMatrix& matrix) {
  const TensorView view = matrix.view();
  const auto row_bytes = static_cast<size_t>(view.row_bytes());
  std::vector<std::byte> row(row_bytes);
  for (int64_t i = 0; i < view.dim(0); ++i) matrix.MakeRows(i, 1, row.data());
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  return {
      Seed({8, 8}, 2, 1, {64}), Seed({4, 8}, 1, 1, {32}),
      Seed({64, 1}, 2, 1, {64}),
      SeedOfRows({"q", "I8", {8, 32}, std::string(256, '\0')},
                 {"z", "I8", {8, 1}, std::string(8, '\0')}, {}),
      SeedOfRows({"q", "I32", {8, 4}, std::string(128, '\0')},
                 {"z", "I32", {1, 1}, std::string(4, '\0')},
                 {{"h", "I32", {2}, std::string("\x08\0\0\0\x20\0\0\0", 8)}})};
}

}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using headrace::PackedMatrix;
  const std::span<const std::byte> file(
      reinterpret_cast<const std::byte*>(data), size);
  const auto infos = headrace::ParseSafetensors(file, "fuzz.safetensors");
  if (!infos.ok()) return 0;
  std::vector<headrace::RawTensor> tensors;
  for (const headrace::SafetensorsInfo& info : *infos) {
    tensors.push_back({.name = info.name,
                       .location = "fuzz.safetensors",
                       .dtype_name = info.dtype_name,
                       .shape = info.shape,
                       .data = file.data() + info.offset});
  }
  headrace::PackedParts parts;
  for (const headrace::RawTensor& tensor : tensors) {
    if (tensor.name == "q") parts.qweight = &tensor;
    if (tensor.name == "z") parts.qzeros = &tensor;
    if (tensor.name == "s") parts.scales = &tensor;
    if (tensor.name == "g") parts.g_idx = &tensor;
    if (tensor.name == "h") parts.shape = &tensor;
  }
  for (const headrace::QuantizationConfig& config : headrace::kConfigs) {
    const auto matrix = PackedMatrix::Create("x", parts, config);
    if (matrix.ok()) {
      headrace::MakeAllRows(**matrix);
    } else {
      CHECK(headrace::IsUtf8(std::string(matrix.status().message())));
    }
  }
  return 0;
}
