// GatedLinear() against the operations that it does at once, bit for bit.
#include "engine/ops/gated_linear.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "engine/ops/activation.h"
#include "engine/ops/linear.h"
#include "engine/ops/ops_context.h"
#include "engine/ops/quantized_rows.h"
#include "engine/tensor/dtype.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/linear/linear_reference.h"

namespace headrace {
namespace {

using ::headrace::testing::StoredMatrix;

constexpr int64_t kIn = 256;

struct Types {
  DType gate;
  DType up;
};

LinearWeights PackGateUp(OpsContext& context, Types types, int64_t width,
                         Numerics numerics) {
  std::mt19937 random(7);
  const StoredMatrix gate(types.gate, width, kIn, random);
  const StoredMatrix up(types.up, width, kIn, random);
  auto packed = LinearWeights::Pack(context, std::array{gate.view(), up.view()},
                                    numerics);
  EXPECT_TRUE(packed.ok()) << packed.status();
  return *std::move(packed);
}

class GatedLinearTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto context = OpsContext::Create(3);
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
  }

  // The three operations, one after the other.
  void Separately(const LinearWeights& gate_up, Activation activation,
                  const std::vector<float>& src, int64_t num_rows,
                  QuantizedRows& dst) {
    const int64_t width = gate_up.out_features() / 2;
    std::vector<float> products(static_cast<size_t>(num_rows * width * 2));
    Linear(*context_, gate_up, src.data(), num_rows,
           {.rows = products.data(), .stride = 2 * width});
    act_.resize(static_cast<size_t>(num_rows * width));
    Activate(context_->team(), activation,
             {.gate = products.data(),
              .up = products.data() + width,
              .num_rows = num_rows,
              .width = width,
              .row_stride = 2 * width},
             act_.data());
    dst.Quantize(context_->team(), act_.data(), num_rows, width);
  }

  std::unique_ptr<OpsContext> context_;
  std::vector<float> act_;
};

TEST_F(GatedLinearTest, EqualsItsPartsInEveryBit) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const Types types :
       {Types{DType::kQ8_0, DType::kQ8_0}, Types{DType::kQ4_1, DType::kQ4_1},
        Types{DType::kQ4_K, DType::kQ6_K}, Types{DType::kQ4_Z, DType::kQ8_Z}}) {
    constexpr int64_t kWidth = 192;
    const LinearWeights gate_up =
        PackGateUp(*context_, types, kWidth, Numerics::kFast);
    ASSERT_TRUE(TakesGatedLinear(gate_up));
    for (const int64_t num_rows : {1, 2, 17, 255, 256, 257, 600}) {
      std::vector<float> src(static_cast<size_t>(num_rows * kIn));
      for (float& value : src) value = normal(random);
      std::fill_n(src.begin(), kIn, 0.0f);  // a row of zeros
      for (const Activation activation :
           {Activation::kSilu, Activation::kGeluTanh}) {
        QuantizedRows expected;
        Separately(gate_up, activation, src, num_rows, expected);
        QuantizedRows rows;
        rows.Quantize(context_->team(), src.data(), num_rows, kIn);
        QuantizedRows got;
        GatedLinear(*context_, gate_up, activation, rows, got);
        ASSERT_EQ(got.num_rows(), num_rows);
        ASSERT_EQ(got.width(), kWidth);
        EXPECT_EQ(
            std::memcmp(got.groups(), expected.groups(),
                        static_cast<size_t>(num_rows * (kWidth / kGroupSize)) *
                            sizeof(kernels::QuantizedGroup)),
            0)
            << num_rows << " rows";
      }
    }
  }
}

TEST_F(GatedLinearTest, LeavesToOthersWhatItCannotTake) {
  const Types quantized = {DType::kQ8_0, DType::kQ8_0};
  EXPECT_TRUE(
      TakesGatedLinear(PackGateUp(*context_, quantized, 128, Numerics::kFast)));
  // Half a panel of each.
  EXPECT_FALSE(
      TakesGatedLinear(PackGateUp(*context_, quantized, 96, Numerics::kFast)));
  EXPECT_FALSE(TakesGatedLinear(
      PackGateUp(*context_, quantized, 128, Numerics::kExact)));
  EXPECT_FALSE(TakesGatedLinear(PackGateUp(
      *context_, {DType::kQ8_0, DType::kF32}, 128, Numerics::kFast)));
}

}  // namespace
}  // namespace headrace
