#include "engine/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "engine/ops/kernels/isa.h"
#include "engine/tensor/half.h"
#include "gtest/gtest.h"
#include "tests/engine/ops/attention/attention_harness.h"
#include "tests/engine/ops/attention/attention_reference.h"

namespace headrace {
namespace {

using testing::AttentionCase;
using testing::AttentionHarness;
using testing::CaseShape;

// All rows of one sequence, `chunk` rows per step from row `start` on; those
// before it in one step.
std::vector<float> RunInChunks(const AttentionCase& c, int num_threads,
                               int64_t chunk, int64_t start = 0,
                               int64_t block_size = 16) {
  ThreadTeam team(num_threads);
  AttentionHarness harness({&c}, block_size);
  if (start > 0) harness.Step(team, {{.begin = 0, .end = start}});
  for (int64_t row = start; row < c.num_rows; row += chunk) {
    harness.Step(team,
                 {{.begin = row, .end = std::min(row + chunk, c.num_rows)}});
  }
  return harness.outputs()[0];
}

std::vector<float> RunAtOnce(const AttentionCase& c) {
  return RunInChunks(c, 1, c.num_rows);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Rows at and around every border of lines, tiles and parts, and the last.
std::vector<int64_t> InterestingRows(const AttentionCase& c) {
  std::vector<int64_t> rows;
  for (const int64_t row : {0, 1, 15, 16, 17, 47, 48, 63, 64, 100, 511, 512,
                            513, 575, 576, 1023, 1024, 1100, 1600}) {
    if (row < c.num_rows) rows.push_back(row);
  }
  rows.push_back(c.num_rows - 1);
  return rows;
}

std::string Name(const AttentionCase& shape) {
  return std::string(LayoutOf(shape.dtype).name) + ", " +
         std::to_string(shape.num_rows) + " rows, " +
         std::to_string(shape.num_attention_heads) + "/" +
         std::to_string(shape.num_key_value_heads) + " heads of " +
         std::to_string(shape.head_dim) + ", window " +
         std::to_string(shape.sliding_window.value_or(0));
}

std::vector<CaseShape> Shapes() {
  return {
      {.num_rows = 1100,
       .num_attention_heads = 8,
       .num_key_value_heads = 4,
       .head_dim = 8},
      {.num_rows = 2100,
       .num_attention_heads = 9,
       .num_key_value_heads = 3,
       .head_dim = 64},
      {.num_rows = 600,
       .num_attention_heads = 1,
       .num_key_value_heads = 1,
       .head_dim = 128},
      {.num_rows = 300,
       .num_attention_heads = 2,
       .num_key_value_heads = 1,
       .head_dim = 80},
      {.num_rows = 130,
       .num_attention_heads = 98,
       .num_key_value_heads = 2,
       .head_dim = 20},
      {.num_rows = 1300,
       .num_attention_heads = 4,
       .num_key_value_heads = 2,
       .head_dim = 16,
       .sliding_window = 100},
      {.num_rows = 1300,
       .num_attention_heads = 2,
       .num_key_value_heads = 2,
       .head_dim = 32,
       .sliding_window = 600},
      {.num_rows = 90,
       .num_attention_heads = 2,
       .num_key_value_heads = 2,
       .head_dim = 32,
       .sliding_window = 1},
  };
}

// With keys and values that bfloat16 holds.
AttentionCase RoundedToBFloat16(AttentionCase c) {
  for (float& k : c.k) k = BFloat16ToFloat(FloatToBFloat16(k));
  for (float& v : c.v) v = BFloat16ToFloat(FloatToBFloat16(v));
  return c;
}

// The shapes, with every type of keys and values.
std::vector<AttentionCase> Cases(uint32_t seed) {
  std::vector<AttentionCase> cases;
  for (const CaseShape& shape : Shapes()) {
    cases.push_back(testing::MakeAttentionCase(shape, seed));
    for (const KvCacheDtype dtype :
         {KvCacheDtype::kInt16, KvCacheDtype::kInt8}) {
      cases.push_back(cases.back());
      cases.back().dtype = dtype;
    }
    cases.push_back(RoundedToBFloat16(cases.back()));
    cases.back().dtype = KvCacheDtype::kBF16;
  }
  return cases;
}

TEST(AttentionTest, AgreesWithFloat64) {
  for (const AttentionCase& c : Cases(1)) {
    const std::vector<float> out = RunAtOnce(c);
    double worst = 0;
    for (const int64_t row : InterestingRows(c)) {
      for (int64_t head = 0; head < c.num_attention_heads; ++head) {
        const std::vector<double> expected =
            testing::AttentionInFloat64(c, row, head);
        const float* actual =
            out.data() + (row * c.num_attention_heads + head) * c.head_dim;
        for (size_t d = 0; d < expected.size(); ++d) {
          worst = std::max(worst, std::abs(actual[d] - expected[d]));
        }
      }
    }
    // Values have deviation 1. A score of size 8 is rounded to 5e-7, and so its
    // exponential to 5e-7 of itself, to which come 2 ulp of its own, and the
    // rounding of sums. Integers are rounded to half a step of
    // 1 / 2896, or 1 / 127, of the greatest of a key or value, which is about
    // 3; a score adds up the errors of its products.
    const double tolerance = !IsInteger(c.dtype)               ? 1.2e-6
                             : c.dtype == KvCacheDtype::kInt16 ? 3e-3
                                                               : 5e-2;
    EXPECT_LT(worst, tolerance) << Name(c);
    if (IsInteger(c.dtype)) {
      EXPECT_GT(worst, 1e-6) << Name(c);
    }
  }
}

TEST(AttentionTest, EqualsScalarCodeOnEveryInstructionSetWithFma) {
  for (const std::string_view isa : kernels::SupportedIsas()) {
    if (isa == "SSE4") continue;  // no fused multiply-add
    ASSERT_TRUE(kernels::CapIsa(isa).ok());
    for (const AttentionCase& c : Cases(2)) {
      const std::vector<float> out = RunAtOnce(c);
      // Few rows take another path through the kernels.
      ASSERT_TRUE(SameBits(out, RunInChunks(c, 1, 2, c.num_rows - 20)))
          << Name(c) << " on " << isa;
      for (const int64_t row : InterestingRows(c)) {
        for (int64_t head = 0; head < c.num_attention_heads; head += 3) {
          const float* actual =
              out.data() + (row * c.num_attention_heads + head) * c.head_dim;
          ASSERT_EQ(testing::AttentionInOrder(c, row, head),
                    std::vector<float>(actual, actual + c.head_dim))
              << Name(c) << " on " << isa << ": row " << row << ", head "
              << head;
        }
      }
    }
  }
  ASSERT_TRUE(kernels::CapIsa("").ok());
}

std::vector<float> ScoresOfLastRow(const AttentionCase& c) {
  ThreadTeam team(1);
  AttentionHarness harness({&c});
  harness.Step(team, {{.begin = 0, .end = c.num_rows}});
  return harness.Scores(0, c.num_rows - 1, c.num_attention_heads - 1);
}

TEST(AttentionTest, BFloat16EqualsFloat32OfWhatWasRounded) {
  for (const std::string_view isa : kernels::SupportedIsas()) {
    ASSERT_TRUE(kernels::CapIsa(isa).ok());
    for (const CaseShape& shape : Shapes()) {
      AttentionCase c = testing::MakeAttentionCase(shape, 8);
      c.k[1] = 1e-40f;  // subnormal
      c.v[1] = -1e-40f;
      c.v[2] = std::numeric_limits<float>::infinity();
      const AttentionCase rounded = RoundedToBFloat16(c);
      ASSERT_FALSE(SameBits(c.k, rounded.k));
      c.dtype = KvCacheDtype::kBF16;
      const std::vector<float> expected = RunAtOnce(rounded);
      EXPECT_TRUE(SameBits(RunAtOnce(c), expected)) << Name(c) << " on " << isa;
      // Few rows take another path through the kernels.
      EXPECT_TRUE(SameBits(RunInChunks(c, 2, 2, c.num_rows - 20), expected))
          << Name(c) << " on " << isa;
      EXPECT_TRUE(SameBits(ScoresOfLastRow(c), ScoresOfLastRow(rounded)))
          << Name(c) << " on " << isa;
    }
  }
  ASSERT_TRUE(kernels::CapIsa("").ok());
}

TEST(AttentionTest, ScoresThatAreShownAreThoseThatAreUsed) {
  for (const std::string_view isa : kernels::SupportedIsas()) {
    if (isa == "SSE4") continue;  // no fused multiply-add
    ASSERT_TRUE(kernels::CapIsa(isa).ok());
    for (const AttentionCase& c : Cases(3)) {
      ThreadTeam team(1);
      AttentionHarness harness({&c});
      harness.Step(team, {{.begin = 0, .end = c.num_rows}});
      for (const int64_t row : InterestingRows(c)) {
        for (int64_t head = 0; head < c.num_attention_heads; head += 3) {
          ASSERT_TRUE(SameBits(harness.Scores(0, row, head),
                               testing::ScoresInOrder(c, row, head)))
              << Name(c) << " row " << row << " head " << head << " on " << isa;
        }
      }
    }
  }
  ASSERT_TRUE(kernels::CapIsa("").ok());
}

TEST(AttentionTest, WithoutFmaAgreesWithFloat64) {
  ASSERT_TRUE(kernels::CapIsa("SSE4").ok());
  const AttentionCase c = testing::MakeAttentionCase({.num_rows = 700,
                                                      .num_attention_heads = 3,
                                                      .num_key_value_heads = 1,
                                                      .head_dim = 64},
                                                     3);
  const std::vector<float> out = RunAtOnce(c);
  ASSERT_TRUE(kernels::CapIsa("").ok());
  for (const int64_t row : InterestingRows(c)) {
    const std::vector<double> expected = testing::AttentionInFloat64(c, row, 0);
    for (size_t d = 0; d < expected.size(); ++d) {
      // As above; products are rounded too.
      EXPECT_NEAR(out[static_cast<size_t>(row * 3 * 64) + d], expected[d],
                  2e-6);
    }
  }
}

TEST(AttentionTest, RowsDoNotDependOnChunksOrThreads) {
  for (const AttentionCase& c : Cases(4)) {
    const std::vector<float> expected = RunAtOnce(c);
    for (const int64_t chunk : {1, 2, 3, 7, 16, 31, 64, 100, 256}) {
      // Small chunks of the last rows only, which see all parts.
      const int64_t start = std::max<int64_t>(0, c.num_rows - 40 * chunk);
      for (const int num_threads : {1, 2, 3}) {
        EXPECT_TRUE(
            SameBits(expected, RunInChunks(c, num_threads, chunk, start)))
            << Name(c) << ": chunks of " << chunk << ", " << num_threads
            << " threads";
      }
    }
  }
}

TEST(AttentionTest, RowsDoNotDependOnTheBlockSize) {
  const AttentionCase c = testing::MakeAttentionCase({.num_rows = 700,
                                                      .num_attention_heads = 6,
                                                      .num_key_value_heads = 2,
                                                      .head_dim = 64},
                                                     5);
  const std::vector<float> expected = RunAtOnce(c);
  for (const int64_t block_size : {32, 48, 64, 128}) {
    EXPECT_TRUE(SameBits(expected, RunInChunks(c, 2, 50, 0, block_size)))
        << block_size;
  }
}

TEST(AttentionTest, RowsDoNotDependOnTheBatch) {
  const CaseShape shape = {.num_rows = 1100,
                           .num_attention_heads = 9,
                           .num_key_value_heads = 3,
                           .head_dim = 64};
  std::vector<AttentionCase> cases;
  for (const int64_t num_rows : {1100, 40, 700, 1}) {
    CaseShape sequence = shape;
    sequence.num_rows = num_rows;
    cases.push_back(
        testing::MakeAttentionCase(sequence, static_cast<uint32_t>(num_rows)));
  }
  ThreadTeam team(2);
  AttentionHarness harness({&cases[0], &cases[1], &cases[2], &cases[3]});
  harness.Step(team, {{0, 0, 1000}, {2, 0, 690}});
  harness.Step(team, {{2, 690, 691}, {1, 0, 39}, {0, 1000, 1090}, {3, 0, 1}});
  harness.Step(team, {{0, 1090, 1091}, {1, 39, 40}, {2, 691, 700}});
  harness.Step(team, {{0, 1091, 1100}});
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_TRUE(SameBits(RunAtOnce(cases[i]), harness.outputs()[i])) << i;
  }
}

class MaskedKeysTest : public ::testing::TestWithParam<KvCacheDtype> {};

TEST_P(MaskedKeysTest, ChangeNothing) {
  AttentionCase c = testing::MakeAttentionCase({.num_rows = 200,
                                                .num_attention_heads = 4,
                                                .num_key_value_heads = 2,
                                                .head_dim = 16,
                                                .sliding_window = 50},
                                               6);
  c.dtype = GetParam();
  const std::vector<float> expected = RunAtOnce(c);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const int64_t kv_width = 2 * 16;
  for (const int64_t bad_row : {0, 37, 64, 150, 199}) {
    AttentionCase bad = c;
    std::fill_n(bad.k.begin() + bad_row * kv_width, kv_width, nan);
    std::fill_n(bad.v.begin() + bad_row * kv_width, kv_width, nan);
    const std::vector<float> out = RunAtOnce(bad);
    for (int64_t row = 0; row < c.num_rows; ++row) {
      const bool sees = row >= bad_row && row - bad_row < 50;
      const float* actual = out.data() + row * 64;
      if (sees) {
        EXPECT_TRUE(std::isnan(actual[0])) << row << " sees " << bad_row;
      } else {
        EXPECT_EQ(std::memcmp(actual, expected.data() + row * 64, 64 * 4), 0)
            << row << " does not see " << bad_row;
      }
    }
  }
}

// Rows of a few heads in a window, one number of which is `bad`.
struct BadNumber {
  float bad = 0;
  int64_t row = 0;
  bool in_query = false;  // of head 0; else in the value
};

// Whoever sees the number is not finite, and everybody else has the bits that
// it has without it.
void ExpectOnlySeersAreNotFinite(const AttentionCase& c,
                                 const std::vector<float>& expected,
                                 const BadNumber& number, int64_t chunk) {
  AttentionCase bad = c;
  const auto at = static_cast<size_t>(c.head_dim - 3);
  const int64_t heads = number.in_query ? c.num_attention_heads : 1;
  std::vector<float>& values = number.in_query ? bad.q : bad.v;
  values[static_cast<size_t>(number.row * heads * c.head_dim) + at] =
      number.bad;
  const std::vector<float> out = RunInChunks(bad, 1, chunk);
  const auto width = static_cast<size_t>(c.head_dim);
  for (int64_t i = 0; i < c.num_rows * c.num_attention_heads; ++i) {
    const int64_t row = i / c.num_attention_heads;
    const bool sees =
        number.in_query
            ? i == number.row * c.num_attention_heads
            : row >= number.row && row - number.row < *c.sliding_window;
    const size_t first = static_cast<size_t>(i) * width;
    if (sees) {
      ASSERT_FALSE(std::isfinite(out[first + at])) << row << " of " << Name(c);
    } else {
      ASSERT_EQ(std::memcmp(&out[first], &expected[first], width * 4), 0)
          << row << ", chunks of " << chunk << ", " << Name(c);
    }
  }
}

TEST_P(MaskedKeysTest, OnlyRowsThatSeeANumberDependOnIt) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string_view isa : kernels::SupportedIsas()) {
    ASSERT_TRUE(kernels::CapIsa(isa).ok());
    for (const int64_t head_dim : {8, 20, 80}) {
      AttentionCase c = testing::MakeAttentionCase({.num_rows = 150,
                                                    .num_attention_heads = 3,
                                                    .num_key_value_heads = 1,
                                                    .head_dim = head_dim,
                                                    .sliding_window = 70},
                                                   9);
      c.dtype = GetParam();
      const std::vector<float> expected = RunAtOnce(c);
      for (const int64_t row : {0, 70, 128}) {
        for (const int64_t chunk : {1, 3, 7, 50, 150}) {
          for (const BadNumber& number :
               {BadNumber{nan, row, true}, BadNumber{nan, row},
                BadNumber{inf, row}, BadNumber{-inf, row}}) {
            ExpectOnlySeersAreNotFinite(c, expected, number, chunk);
          }
        }
      }
    }
  }
  ASSERT_TRUE(kernels::CapIsa("").ok());
}

INSTANTIATE_TEST_SUITE_P(
    All, MaskedKeysTest,
    ::testing::Values(KvCacheDtype::kF32, KvCacheDtype::kBF16,
                      KvCacheDtype::kInt16, KvCacheDtype::kInt8),
    [](const auto& info) { return std::string(LayoutOf(info.param).name); });

TEST(AttentionTest, ScoresFarApartDoNotOverflow) {
  AttentionCase c = testing::MakeAttentionCase({.num_rows = 1000,
                                                .num_attention_heads = 1,
                                                .num_key_value_heads = 1,
                                                .head_dim = 16},
                                               7);
  for (float& q : c.q) q *= 1e4f;
  for (float& k : c.k) k *= 1e4f;
  for (const KvCacheDtypeLayout& layout : kKvCacheDtypes) {
    c.dtype = layout.dtype;
    for (const float value : RunAtOnce(c)) ASSERT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace headrace
