// Both loops for int8 rows, on the same panel: oneDNN's and our own.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/base/aligned_buffer.h"
#include "engine/ops/kernels/linear_int8.h"
#include "engine/ops/onednn_int8_gemm.h"
#include "engine/ops/ops_context.h"
#include "engine/ops/packed_panels.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

constexpr int64_t kColumns = 64;

// A panel of Q8_C whose numbers and rows are the greatest that there are, or
// any: sums of two products are beyond 16 bits, those of all near 32.
struct Example {
  Example(int64_t in, bool greatest)
      : panel(static_cast<size_t>(512 + in * kColumns)),
        src(static_cast<size_t>(OneDnnInt8Gemm::kMaxRows * in)),
        scales(OneDnnInt8Gemm::kMaxRows) {
    std::mt19937 random(3);
    const auto any = [&](int extreme) {
      return static_cast<uint8_t>(greatest ? extreme : random());
    };
    for (uint8_t& value : src.span()) value = any(255);
    for (int64_t column = 0; column < kColumns; ++column) {
      const float scale = static_cast<float>(column % 7) - 3;
      uint32_t sum = 0;
      for (int64_t k = 0; k < in; ++k) {
        const auto q = static_cast<int8_t>(any(column % 2 == 0 ? 127 : -128));
        panel.data()[512 + k / 4 * 256 + column * 4 + k % 4] =
            static_cast<std::byte>(q);
        sum += 128u * static_cast<uint32_t>(q);
      }
      std::memcpy(panel.data() + 4 * column, &scale, 4);
      std::memcpy(panel.data() + 4 * (kColumns + column), &sum, 4);
    }
    for (float& scale : scales) {
      scale = std::uniform_real_distribution<float>(-1, 1)(random);
    }
    product = {.panel = {.dtype = DType::kQ8_C, .in = in, .data = panel.data()},
               .src = src.data(),
               .src_scales = scales.data(),
               .ld_dst = kColumns};
  }

  AlignedBuffer<std::byte> panel;
  AlignedBuffer<uint8_t> src;
  std::vector<float> scales;
  kernels::Int8Product product;
};

float Expected(const Example& example, int64_t row, int64_t column) {
  const int64_t in = example.product.panel.in;
  int64_t dot = 0;
  for (int64_t k = 0; k < in; ++k) {
    dot += int64_t{example.src.data()[row * in + k] - 128} *
           static_cast<int8_t>(
               example.panel.data()[512 + k / 4 * 256 + column * 4 + k % 4]);
  }
  const float scale = (static_cast<float>(column % 7) - 3) *
                      example.scales[static_cast<size_t>(row)];
  return static_cast<float>(dot) * scale;
}

// Of the first row and the last.
void ExpectProducts(const Example& example, const std::vector<float>& got) {
  const int64_t rows = static_cast<int64_t>(got.size()) / kColumns;
  for (const int64_t row : {int64_t{0}, rows - 1}) {
    for (int64_t column = 0; column < kColumns; column += 3) {
      ASSERT_EQ(got[static_cast<size_t>(row * kColumns + column)],
                Expected(example, row, column))
          << example.product.panel.in << " inputs, row " << row << " of "
          << rows;
    }
  }
}

class Int8GemmTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto context = OpsContext::Create(1);
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
  }
  std::unique_ptr<OpsContext> context_;
};

TEST_P(Int8GemmTest, LoopsGiveTheSameBits) {
  for (const int64_t in : {32, 96, 576, 4096, 131072}) {
    Example example(in, GetParam());
    OneDnnInt8Gemm& gemm = context_->int8_gemm();
    gemm.Prepare(in);
    AlignedBuffer<std::byte> scratch(OneDnnInt8Gemm::kScratchBytes);
    for (const int64_t rows : {1, 2, 3, 5, 6, 7, 8, 13, 64}) {
      std::vector<float> ours(static_cast<size_t>(rows * kColumns));
      std::vector<float> theirs(ours.size());
      std::vector<int32_t> sums(ours.size());
      kernels::Int8Product product = example.product;
      product.num_rows = rows;
      product.dst = ours.data();

      kernels::MultiplyPanelInt8(product);

      ExpectProducts(example, ours);
      if (!gemm.Serves(in)) continue;
      gemm.Multiply({.src = example.src.data(),
                     .num_rows = rows,
                     .in = in,
                     .weights = example.panel.data() + 512,
                     .sums = sums.data(),
                     .scratch = scratch.data()});
      product.dst = theirs.data();
      kernels::FinishPanelInt8(product, sums.data());
      EXPECT_EQ(std::memcmp(ours.data(), theirs.data(), ours.size() * 4), 0)
          << in << " inputs, " << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Numbers, Int8GemmTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Greatest" : "Any";
                         });

// A machine with 4-way dot products whose oneDNN is not used would be slow.
TEST(OneDnnInt8GemmTest, ServesWhereThereAreDotProducts) {
  auto context = OpsContext::Create(1);
  ASSERT_TRUE(context.ok()) << context.status();
  const std::string& isa = (*context)->isa();
  const bool may_do_without = isa == "SSE4" || isa == "AVX2" || isa == "AVX3";

  (*context)->int8_gemm().Prepare(576);

  EXPECT_TRUE((*context)->int8_gemm().Serves(576) || may_do_without) << isa;
}

TEST(Int8LinearTest, MoreInputsThanTheSumsHoldAreRefused) {
  auto context = OpsContext::Create(1);
  ASSERT_TRUE(context.ok()) << context.status();
  constexpr int64_t kIn = (int64_t{1} << 17) + 32;
  const std::vector<std::byte> bytes(static_cast<size_t>(kIn / 32 * 36));
  const TensorView part = {
      .dtype = DType::kQ8_C, .shape = {1, kIn}, .data = bytes.data()};

  const auto panels =
      PackPanels((*context)->team(), (*context)->packed_memory(), {&part, 1});

  EXPECT_EQ(panels.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(panels.status().message()).find("131104"),
            std::string::npos)
      << panels.status();
}

}  // namespace
}  // namespace headrace
