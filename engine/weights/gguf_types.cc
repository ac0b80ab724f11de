#include "engine/weights/gguf_types.h"

#include <cstdint>
#include <optional>

#include "engine/tensor/dtype.h"

namespace headrace {
namespace {

// A dtype is supported from the moment it stands in the last column.
constexpr GgmlType kGgmlTypes[] = {
    {0, "F32", DType::kF32},       {1, "F16", DType::kF16},
    {2, "Q4_0", DType::kQ4_0},     {3, "Q4_1", DType::kQ4_1},
    {6, "Q5_0", std::nullopt},     {7, "Q5_1", std::nullopt},
    {8, "Q8_0", DType::kQ8_0},     {9, "Q8_1", std::nullopt},
    {10, "Q2_K", std::nullopt},    {11, "Q3_K", std::nullopt},
    {12, "Q4_K", std::nullopt},    {13, "Q5_K", std::nullopt},
    {14, "Q6_K", std::nullopt},    {15, "Q8_K", std::nullopt},
    {16, "IQ2_XXS", std::nullopt}, {17, "IQ2_XS", std::nullopt},
    {18, "IQ3_XXS", std::nullopt}, {19, "IQ1_S", std::nullopt},
    {20, "IQ4_NL", std::nullopt},  {21, "IQ3_S", std::nullopt},
    {22, "IQ2_S", std::nullopt},   {23, "IQ4_XS", std::nullopt},
    {24, "I8", std::nullopt},      {25, "I16", std::nullopt},
    {26, "I32", std::nullopt},     {27, "I64", std::nullopt},
    {28, "F64", std::nullopt},     {29, "IQ1_M", std::nullopt},
    {30, "BF16", DType::kBF16},    {34, "TQ1_0", std::nullopt},
    {35, "TQ2_0", std::nullopt},   {39, "MXFP4", std::nullopt},
    {40, "NVFP4", std::nullopt},   {41, "Q1_0", std::nullopt},
    {42, "Q2_0", std::nullopt},
};

}  // namespace

const GgmlType* FindGgmlType(uint32_t id) {
  for (const GgmlType& type : kGgmlTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

}  // namespace headrace
