#include "engine/weights/gguf_types.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/tensor/dtype.h"

namespace headrace {
namespace {

// A dtype is supported from the moment it stands in the last column.
constexpr GgmlType kGgmlTypes[] = {
    {"F32", 0, DType::kF32},       {"F16", 1, DType::kF16},
    {"Q4_0", 2, DType::kQ4_0},     {"Q4_1", 3, DType::kQ4_1},
    {"Q5_0", 6, DType::kQ5_0},     {"Q5_1", 7, DType::kQ5_1},
    {"Q8_0", 8, DType::kQ8_0},     {"Q8_1", 9, std::nullopt},
    {"Q2_K", 10, std::nullopt},    {"Q3_K", 11, std::nullopt},
    {"Q4_K", 12, DType::kQ4_K},    {"Q5_K", 13, DType::kQ5_K},
    {"Q6_K", 14, DType::kQ6_K},    {"Q8_K", 15, std::nullopt},
    {"IQ2_XXS", 16, std::nullopt}, {"IQ2_XS", 17, std::nullopt},
    {"IQ3_XXS", 18, std::nullopt}, {"IQ1_S", 19, std::nullopt},
    {"IQ4_NL", 20, std::nullopt},  {"IQ3_S", 21, std::nullopt},
    {"IQ2_S", 22, std::nullopt},   {"IQ4_XS", 23, std::nullopt},
    {"I8", 24, std::nullopt},      {"I16", 25, std::nullopt},
    {"I32", 26, std::nullopt},     {"I64", 27, std::nullopt},
    {"F64", 28, std::nullopt},     {"IQ1_M", 29, std::nullopt},
    {"BF16", 30, DType::kBF16},    {"TQ1_0", 34, std::nullopt},
    {"TQ2_0", 35, std::nullopt},   {"MXFP4", 39, std::nullopt},
    {"NVFP4", 40, std::nullopt},   {"Q1_0", 41, std::nullopt},
    {"Q2_0", 42, std::nullopt},
};

}  // namespace

const GgmlType* FindGgmlType(uint32_t id) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

std::string SupportedGgmlTypes() {
  std::string names;
  for (const GgmlType& type : kGgmlTypes) {
    if (!type.dtype.has_value()) continue;
    absl::StrAppend(&names, names.empty() ? "" : ", ", std::string(type.name));
  }
  return names;
}

}  // namespace headrace
