// Linear() against its scalar twin, bit for bit. Run once per instruction set:
// see CMakeLists.txt.
#include "engine/ops/linear.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/ops/ops_context.h"
#include "engine/tensor/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/linear/linear_reference.h"

namespace headrace {
namespace {

using ::headrace::testing::ReferenceRow;
using ::headrace::testing::RemainderReference;
using ::headrace::testing::StoredMatrix;
using ::testing::HasSubstr;

constexpr float kUntouched = -12345.0f;

constexpr DType kAllTypes[] = {
    DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0, DType::kQ4_0,
    DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K,
    DType::kQ6_K, DType::kQ4_Z, DType::kQ8_Z, DType::kQ8_C};

// One per number of threads, for all tests: each has to compile its kernels.
OpsContext& ContextOf(int num_threads) {
  static auto& contexts = *new std::map<int, std::unique_ptr<OpsContext>>();
  std::unique_ptr<OpsContext>& context = contexts[num_threads];
  if (context == nullptr) {
    auto created = OpsContext::Create(num_threads);
    EXPECT_TRUE(created.ok()) << created.status();
    context = *std::move(created);
  }
  return *context;
}

bool HasFusedMultiplyAdd(const OpsContext& context) {
  return context.isa() != "SSE4";
}

LinearWeights Pack(OpsContext& context, const StoredMatrix& weights,
                   Numerics numerics) {
  const TensorView view = weights.view();
  auto packed = LinearWeights::Pack(context, {&view, 1}, numerics);
  EXPECT_TRUE(packed.ok()) << packed.status();
  return *std::move(packed);
}

std::vector<float> RandomFloats(int64_t size, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = normal(random);
  return values;
}

// Rows that repeat each other in an irregular order, with what each one of them
// must give: few references serve many rows in changing company.
class RowPool {
 public:
  static constexpr int64_t kDistinct = 11;

  RowPool(const StoredMatrix& weights, Numerics numerics, bool fused,
          std::mt19937& random)
      : in_(weights.view().dim(1)),
        rows_(RandomFloats(kDistinct * in_, random)) {
    for (int64_t i = 0; i < kDistinct; ++i) {
      expected_.push_back(ReferenceRow(row(i), weights, numerics, fused));
    }
  }

  std::vector<float> Src(int64_t num_rows) const {
    std::vector<float> src;
    for (int64_t r = 0; r < num_rows; ++r) {
      const auto x = row(Pick(r));
      src.insert(src.end(), x.begin(), x.end());
    }
    return src;
  }
  const std::vector<float>& Expected(int64_t r) const {
    return expected_[static_cast<size_t>(Pick(r))];
  }

 private:
  static int64_t Pick(int64_t r) { return (r * r + 3 * r) % kDistinct; }
  std::span<const float> row(int64_t i) const {
    return std::span(rows_).subspan(static_cast<size_t>(i * in_),
                                    static_cast<size_t>(in_));
  }

  int64_t in_;
  std::vector<float> rows_;
  std::vector<std::vector<float>> expected_;
};

// Compares all rows of dst [num_rows, out + 3] and the gap after each.
::testing::AssertionResult RowsEqual(const RowPool& pool, int64_t num_rows,
                                     const std::vector<float>& dst) {
  for (int64_t r = 0; r < num_rows; ++r) {
    const std::vector<float>& expected = pool.Expected(r);
    const size_t ld = expected.size() + 3;
    const float* actual = dst.data() + static_cast<size_t>(r) * ld;
    for (size_t n = 0; n < ld; ++n) {
      const float want = n < expected.size() ? expected[n] : kUntouched;
      if (std::memcmp(&actual[n], &want, sizeof(float)) != 0) {
        return ::testing::AssertionFailure()
               << "row " << r << " of " << num_rows << ", column " << n << ": "
               << actual[n] << " instead of " << want;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

struct LinearShape {
  int64_t in;
  int64_t out;
};

using LinearCase = std::tuple<DType, Numerics, LinearShape>;

class LinearBitsTest : public ::testing::TestWithParam<LinearCase> {};

TEST_P(LinearBitsTest, EqualScalarTwinForAllRowCountsAndThreads) {
  const auto& [dtype, numerics, shape] = GetParam();
  std::mt19937 random(7);
  const StoredMatrix weights(dtype, shape.out, shape.in, random);
  std::unique_ptr<RowPool> pool;
  for (const int num_threads : {1, 2, 3}) {
    OpsContext& context = ContextOf(num_threads);
    if (pool == nullptr) {
      pool = std::make_unique<RowPool>(weights, numerics,
                                       HasFusedMultiplyAdd(context), random);
    }
    const LinearWeights packed = Pack(context, weights, numerics);
    for (const int64_t num_rows :
         {1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 31, 64, 65, 128, 512}) {
      const std::vector<float> src = pool->Src(num_rows);
      std::vector<float> dst(static_cast<size_t>(num_rows * (shape.out + 3)),
                             kUntouched);

      Linear(context, packed, src.data(), num_rows,
             {.rows = dst.data(), .stride = shape.out + 3});

      EXPECT_TRUE(RowsEqual(*pool, num_rows, dst))
          << num_threads << " threads, " << context.isa();
    }
  }
}

std::vector<LinearCase> AllCases() {
  std::vector<LinearCase> cases;
  for (const LinearShape shape :
       {LinearShape{576, 960}, LinearShape{1536, 576}, LinearShape{576, 130},
        LinearShape{64, 172}, LinearShape{64, 64}, LinearShape{2048, 200},
        LinearShape{32, 3000}, LinearShape{172, 64}, LinearShape{1, 1},
        LinearShape{1025, 66}, LinearShape{256, 64}, LinearShape{768, 130}}) {
    for (const DType dtype : kAllTypes) {
      const bool quantized = LayoutOf(dtype).elements > 1;
      if (shape.in % LayoutOf(dtype).elements != 0) continue;
      cases.emplace_back(dtype, Numerics::kExact, shape);
      if (quantized) cases.emplace_back(dtype, Numerics::kFast, shape);
    }
  }
  return cases;
}

std::string NameOf(const ::testing::TestParamInfo<LinearCase>& info) {
  const auto& [dtype, numerics, shape] = info.param;
  return std::string(LayoutOf(dtype).name) +
         (numerics == Numerics::kExact ? "Exact" : "Fast") +
         std::to_string(shape.in) + "To" + std::to_string(shape.out);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, LinearBitsTest,
                         ::testing::ValuesIn(AllCases()), NameOf);

TEST(LinearTest, StacksPartsOfDifferentTypes) {
  std::mt19937 random(3);
  OpsContext& context = ContextOf(2);
  const bool fused = HasFusedMultiplyAdd(context);
  std::vector<StoredMatrix> parts;
  std::vector<TensorView> views;
  for (const auto& [dtype, out] :
       {std::pair{DType::kQ4_1, 64}, std::pair{DType::kQ4_1, 33},
        std::pair{DType::kQ8_0, 70}, std::pair{DType::kF16, 5},
        std::pair{DType::kF32, 65}, std::pair{DType::kF32, 1},
        std::pair{DType::kQ8_C, 31}, std::pair{DType::kQ8_C, 64}}) {
    parts.emplace_back(dtype, out, 96, random);
  }
  for (const StoredMatrix& part : parts) views.push_back(part.view());
  const auto weights = LinearWeights::Pack(context, views, Numerics::kFast);
  ASSERT_TRUE(weights.ok()) << weights.status();
  ASSERT_EQ(weights->out_features(), 64 + 33 + 70 + 5 + 65 + 1 + 31 + 64);
  EXPECT_EQ(weights->panels().size(), 5u);
  const std::vector<float> src = RandomFloats(20 * 96, random);
  std::vector<float> dst(20 * 333);

  Linear(context, *weights, src.data(), 20,
         {.rows = dst.data(), .stride = 333});

  for (size_t r = 0; r < 20; ++r) {
    std::vector<float> expected;
    for (const StoredMatrix& part : parts) {
      const std::vector<float> columns = ReferenceRow(
          std::span(src).subspan(r * 96, 96), part, Numerics::kFast, fused);
      expected.insert(expected.end(), columns.begin(), columns.end());
    }
    EXPECT_EQ(std::memcmp(expected.data(), dst.data() + r * 333, 333 * 4), 0)
        << "row " << r;
  }
}

// A matrix that keeps its inputs in an order of its own.
class OrderedMatrix final : public RowMaker {
 public:
  OrderedMatrix(const StoredMatrix& places, std::vector<int32_t> order)
      : places_(places.view()), order_(std::move(order)) {}

  TensorView view() const {
    return {places_.dtype, places_.shape, nullptr, this};
  }
  void MakeRows(int64_t first, int64_t count, std::byte* dst) const override {
    std::memcpy(dst, places_.row(first),
                static_cast<size_t>(count * places_.row_bytes()));
  }
  std::span<const int32_t> order() const override { return order_; }

 private:
  TensorView places_;
  std::vector<int32_t> order_;
};

struct OrderedPart {
  DType dtype;
  int64_t out;
  std::vector<int32_t> order;  // empty: a matrix as it is stored
};

// Compares one row's products with those of its inputs in each part's order.
void ExpectOrdered(std::span<const OrderedPart> parts,
                   const std::deque<StoredMatrix>& matrices,
                   std::span<const float> src, std::span<const float> dst,
                   const LinearWeights& weights) {
  std::vector<float> expected;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<float> row(src.begin(), src.end());
    for (size_t k = 0; k < parts[p].order.size(); ++k) {
      row[k] = src[static_cast<size_t>(parts[p].order[k])];
    }
    const std::vector<float> columns =
        ReferenceRow(row, matrices[p], weights.numerics(),
                     HasFusedMultiplyAdd(ContextOf(2)));
    expected.insert(expected.end(), columns.begin(), columns.end());
  }
  ASSERT_EQ(expected.size(), dst.size());
  EXPECT_EQ(std::memcmp(expected.data(), dst.data(), dst.size_bytes()), 0);
}

TEST(LinearTest, RowsTakeTheOrderOfEachPart) {
  constexpr int64_t kIn = 96;
  std::mt19937 random(5);
  std::vector<int32_t> in_order(kIn);
  std::iota(in_order.begin(), in_order.end(), 0);
  std::vector<int32_t> first = in_order;
  std::shuffle(first.begin(), first.end(), random);
  const std::vector<int32_t> second(first.rbegin(), first.rend());
  const OrderedPart parts[] = {
      {DType::kQ4_0, 64, first},   {DType::kQ4_0, 33, first},
      {DType::kQ4_0, 70, second},  {DType::kQ4_Z, 5, second},
      {DType::kF32, 65, second},   {DType::kQ4_0, 1, {}},
      {DType::kQ8_0, 7, in_order}, {DType::kF32, 7, first}};
  std::deque<StoredMatrix> matrices;
  std::deque<OrderedMatrix> ordered;
  std::vector<TensorView> views;
  for (const OrderedPart& part : parts) {
    matrices.emplace_back(part.dtype, part.out, kIn, random);
    ordered.emplace_back(matrices.back(), part.order);
    views.push_back(part.order.empty() ? matrices.back().view()
                                       : ordered.back().view());
  }
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    const auto weights = LinearWeights::Pack(ContextOf(2), views, numerics);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(weights->panels().size(), 7u);
    EXPECT_EQ(weights->row_form(), RowForm::kFloat);
    const auto out = static_cast<size_t>(weights->out_features());
    for (const size_t num_rows : {1, 20}) {
      const std::vector<float> src =
          RandomFloats(static_cast<int64_t>(num_rows) * kIn, random);
      std::vector<float> dst(num_rows * out);

      Linear(ContextOf(2), *weights, src.data(), static_cast<int64_t>(num_rows),
             {.rows = dst.data(), .stride = static_cast<int64_t>(out)});

      for (size_t r = 0; r < num_rows; ++r) {
        SCOPED_TRACE(r);
        ExpectOrdered(parts, matrices, std::span(src).subspan(r * kIn, kIn),
                      std::span(dst).subspan(r * out, out), *weights);
      }
    }
  }
}

TEST(LinearTest, RowsQuantizedOnceServeSeveralProducts) {
  std::mt19937 random(4);
  OpsContext& context = ContextOf(2);
  const std::vector<float> src = RandomFloats(7 * 64, random);
  QuantizedRows rows;
  rows.Quantize(context.team(), src.data(), 7, 64);
  for (const DType dtype : {DType::kQ4_0, DType::kQ8_0, DType::kF32}) {
    const StoredMatrix matrix(dtype, 100, 64, random);
    const LinearWeights weights = Pack(context, matrix, Numerics::kFast);
    std::vector<float> together(7 * 100);
    std::vector<float> alone(7 * 100);

    Linear(context, weights, rows, {.rows = together.data(), .stride = 100});
    Linear(context, weights, src.data(), 7,
           {.rows = alone.data(), .stride = 100});

    EXPECT_EQ(together, alone) << LayoutOf(dtype).name;
  }
}

// 130 columns end in a padded panel.
TEST(LinearTest, AddsToWhatIsThere) {
  std::mt19937 random(11);
  OpsContext& context = ContextOf(2);
  for (const DType dtype : kAllTypes) {
    for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
      const StoredMatrix matrix(dtype, 130, 768, random);
      const LinearWeights weights = Pack(context, matrix, numerics);
      for (const int64_t num_rows : {1, 3, 20, 300}) {
        const std::vector<float> src = RandomFloats(num_rows * 768, random);
        std::vector<float> sum = RandomFloats(num_rows * 133, random);
        std::vector<float> expected = sum;
        std::vector<float> product(static_cast<size_t>(num_rows * 130));
        Linear(context, weights, src.data(), num_rows,
               {.rows = product.data(), .stride = 130});
        for (size_t i = 0; i < product.size(); ++i) {
          expected[i / 130 * 133 + i % 130] += product[i];
        }

        Linear(context, weights, src.data(), num_rows,
               {.rows = sum.data(), .stride = 133, .add = true});

        EXPECT_EQ(std::memcmp(sum.data(), expected.data(), sum.size() * 4), 0)
            << LayoutOf(dtype).name << ", " << num_rows << " rows";
      }
    }
  }
}

// 300 rows are two tasks of pairs; 130 columns end in a padded panel.
TEST(LinearTest, RowsQuantizedTwiceGiveTheSumOfBothProducts) {
  std::mt19937 random(9);
  for (const DType dtype :
       {DType::kQ4_1, DType::kQ6_K, DType::kF32, DType::kQ8_C}) {
    const StoredMatrix matrix(dtype, 130, 256, random);
    const size_t width = dtype == DType::kQ8_C ? 256 : 32;
    const TensorView view = matrix.view();
    for (const int num_threads : {1, 2}) {
      OpsContext& context = ContextOf(num_threads);
      const bool fused = HasFusedMultiplyAdd(context);
      const auto weights = LinearWeights::Pack(
          context, {&view, 1}, Numerics::kFast, RowPrecision::kTwiceInt8);
      ASSERT_TRUE(weights.ok()) << weights.status();
      const std::vector<float> src = RandomFloats(300 * 256, random);
      for (const int64_t num_rows : {1, 2, 300}) {
        std::vector<float> dst(static_cast<size_t>(num_rows) * 130);

        Linear(context, *weights, src.data(), num_rows,
               {.rows = dst.data(), .stride = 130});

        for (size_t r = 0; r < static_cast<size_t>(num_rows); r += 13) {
          const auto x = std::span(src).subspan(r * 256, 256);
          std::vector<float> expected =
              ReferenceRow(x, matrix, Numerics::kFast, fused);
          if (dtype != DType::kF32) {
            const std::vector<float> rest = ReferenceRow(
                RemainderReference(x, width), matrix, Numerics::kFast, fused);
            for (size_t n = 0; n < 130; ++n) expected[n] += rest[n];
          }
          EXPECT_EQ(std::memcmp(expected.data(), dst.data() + r * 130, 130 * 4),
                    0)
              << LayoutOf(dtype).name << ", row " << r << " of " << num_rows;
        }
      }
    }
  }
}

// Against float64.
TEST(LinearTest, RowsQuantizedTwiceAreNearlyExact) {
  std::mt19937 random(10);
  OpsContext& context = ContextOf(1);
  const StoredMatrix matrix(DType::kQ8_0, 64, 512, random);
  const TensorView view = matrix.view();
  const std::vector<float> src = RandomFloats(512, random);
  const auto error = [&](Numerics numerics, RowPrecision precision) {
    const auto weights =
        LinearWeights::Pack(context, {&view, 1}, numerics, precision);
    EXPECT_TRUE(weights.ok()) << weights.status();
    std::vector<float> dst(64);
    Linear(context, *weights, src.data(), 1,
           {.rows = dst.data(), .stride = 64});
    double worst = 0;
    for (size_t n = 0; n < dst.size(); ++n) {
      double want = 0;
      for (size_t k = 0; k < src.size(); ++k) {
        want += double{src[k]} *
                matrix.At(static_cast<int64_t>(n), static_cast<int64_t>(k));
      }
      worst = std::max(worst, std::abs(dst[n] - want));
    }
    return worst;
  };

  const double once = error(Numerics::kFast, RowPrecision::kInt8);
  const double twice = error(Numerics::kFast, RowPrecision::kTwiceInt8);

  // A step of the remainder is 1/254 of one of the row, at most.
  EXPECT_LT(twice, once / 100);
}

TEST(LinearTest, NonFiniteRowDoesNotTouchItsNeighbours) {
  std::mt19937 random(5);
  OpsContext& context = ContextOf(1);
  for (const Numerics numerics : {Numerics::kExact, Numerics::kFast}) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
      const StoredMatrix matrix(DType::kQ8_0, 64, 64, random);
      const LinearWeights weights = Pack(context, matrix, numerics);
      std::vector<float> src = RandomFloats(20 * 64, random);
      std::vector<float> clean(20 * 64);
      std::vector<float> dst(20 * 64);
      Linear(context, weights, src.data(), 20,
             {.rows = clean.data(), .stride = 64});
      src[7 * 64 + 40] = bad;

      Linear(context, weights, src.data(), 20,
             {.rows = dst.data(), .stride = 64});

      for (size_t i = 0; i < dst.size(); ++i) {
        if (i / 64 == 7) {
          EXPECT_FALSE(std::isfinite(dst[i])) << i;
        } else {
          EXPECT_EQ(dst[i], clean[i]) << i;
        }
      }
    }
  }
}

TEST(LinearTest, PackedWeightsAreHardlyLargerThanTheFile) {
  std::mt19937 random(6);
  OpsContext& context = ContextOf(1);
  for (const DType dtype : kAllTypes) {
    const StoredMatrix matrix(dtype, 128, 512, random);
    const LinearWeights weights = Pack(context, matrix, Numerics::kFast);
    // Factors of 6 bits take 8.
    const bool six_bits = dtype == DType::kQ4_K || dtype == DType::kQ5_K;
    // A row's scale is there once, and a sum.
    const int64_t row_bytes =
        dtype == DType::kQ8_C ? 512 + 2 * 4 : matrix.view().row_bytes();
    EXPECT_EQ(weights.packed_bytes(),
              128 * (row_bytes + (six_bits ? 2 * 4 : 0)))
        << LayoutOf(dtype).name;
  }
}

TEST(LinearTest, RefusesPartsThatDoNotFitTogether) {
  std::mt19937 random(8);
  OpsContext& context = ContextOf(1);
  const StoredMatrix a(DType::kF32, 4, 64, random);
  const StoredMatrix b(DType::kF32, 4, 32, random);
  const StoredMatrix c(DType::kF32, 4, 48, random);
  TensorView vector = a.view();
  vector.shape = {256};
  TensorView odd = c.view();
  odd.dtype = DType::kQ8_0;
  TensorView no_super_block = a.view();
  no_super_block.dtype = DType::kQ4_K;

  const auto pack = [&](std::vector<TensorView> parts) {
    return std::string(LinearWeights::Pack(context, parts, Numerics::kFast)
                           .status()
                           .message());
  };

  EXPECT_THAT(pack({}), HasSubstr("no weights"));
  EXPECT_THAT(pack({vector}), HasSubstr("shape [256]"));
  EXPECT_THAT(pack({a.view(), b.view()}), HasSubstr("64 and 32 inputs"));
  EXPECT_THAT(pack({odd}),
              HasSubstr("48 inputs; they must be a multiple of 32"));
  EXPECT_THAT(pack({no_super_block}),
              HasSubstr("Q4_K has 64 inputs; they must be a multiple of 256"));
}

}  // namespace
}  // namespace headrace
