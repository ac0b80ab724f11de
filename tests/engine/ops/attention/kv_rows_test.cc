#include "engine/ops/kv_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "engine/kv_cache/paged_kv_storage.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

constexpr int64_t kHeads = 3;
constexpr int64_t kHeadDim = 20;
constexpr int64_t kWidth = kHeads * kHeadDim;
constexpr int64_t kFirst = 5;
constexpr int64_t kNumRows = 150;

float ValueOf(int64_t row, int64_t lane) {
  return static_cast<float>(std::sin(static_cast<double>(row * 100 + lane)));
}

class KvRowsTest : public ::testing::TestWithParam<KvCacheDtype> {
 protected:
  KvRowsTest()
      : storage_(PagedKvStorage::Create({.num_layers = 2,
                                         .num_key_value_heads = kHeads,
                                         .head_dim = kHeadDim,
                                         .block_size = 16,
                                         .dtype = GetParam()},
                                        40)
                     .value()) {
    for (int32_t i = 0; i < 10; ++i) table_.push_back(37 - 3 * i);
  }

  // Rows with gaps between them, in `chunks` calls.
  void Store(int num_threads, int64_t chunk) {
    constexpr int64_t kStride = kWidth + 7;
    std::vector<float> k(static_cast<size_t>(kNumRows * kStride));
    std::vector<float> v = k;
    for (int64_t row = 0; row < kNumRows; ++row) {
      for (int64_t lane = 0; lane < kWidth; ++lane) {
        const auto i = static_cast<size_t>(row * kStride + lane);
        k[i] = ValueOf(row + kFirst, lane);
        v[i] = -ValueOf(row + kFirst, lane);
      }
    }
    ThreadTeam team(num_threads);
    for (int64_t row = 0; row < kNumRows; row += chunk) {
      StoreKeysAndValues(team, storage_.layout(),
                         {.k = k.data() + row * kStride,
                          .v = v.data() + row * kStride,
                          .k_row_stride = kStride,
                          .v_row_stride = kStride,
                          .num_rows = std::min(chunk, kNumRows - row),
                          .first_position = kFirst + row,
                          .block_table = table_},
                         storage_.layer(1));
    }
  }

  KvPlace PlaceOf(int64_t layer, int64_t position, int64_t head) {
    return {.layout = storage_.layout(),
            .layer = storage_.layer(layer),
            .block_table = table_,
            .position = position,
            .head = head};
  }

  std::vector<float> LoadAll(void (*load)(const KvPlace&, float*)) {
    std::vector<float> all;
    for (int64_t position = 0; position < kFirst + kNumRows; ++position) {
      for (int64_t head = 0; head < kHeads; ++head) {
        std::vector<float> row(kHeadDim);
        load(PlaceOf(1, position, head), row.data());
        all.insert(all.end(), row.begin(), row.end());
      }
    }
    return all;
  }

  PagedKvStorage storage_;
  std::vector<int32_t> table_;
};

TEST_P(KvRowsTest, GivesBackWhatItStored) {
  Store(1, kNumRows);
  const std::vector<float> keys = LoadAll(LoadKey);
  const std::vector<float> values = LoadAll(LoadValue);
  // Half a step: of 1 / 2896 or 1 / 127 of the greatest of a row, at most 1; of
  // the last of eight bits.
  const double tolerance = GetParam() == KvCacheDtype::kF32     ? 0
                           : GetParam() == KvCacheDtype::kBF16  ? 0x1p-9
                           : GetParam() == KvCacheDtype::kInt16 ? 0.501 / 2896
                                                                : 0.501 / 127;
  for (size_t i = 0; i < keys.size(); ++i) {
    const int64_t position = static_cast<int64_t>(i) / kWidth;
    const float expected =
        position < kFirst ? 0.0f  // untouched
                          : ValueOf(position, static_cast<int64_t>(i) % kWidth);
    ASSERT_NEAR(keys[i], expected, tolerance) << i;
    ASSERT_NEAR(values[i], -expected, tolerance) << i;
  }
  std::vector<float> row(kHeadDim);
  LoadKey(PlaceOf(0, kFirst, 0), row.data());
  EXPECT_EQ(row, std::vector<float>(kHeadDim));  // another layer
}

TEST_P(KvRowsTest, DependsOnNeitherChunksNorThreads) {
  Store(1, kNumRows);
  const std::vector<float> keys = LoadAll(LoadKey);
  const std::vector<float> values = LoadAll(LoadValue);
  for (const int64_t chunk : {1, 7, 64, 100}) {
    for (int64_t layer_byte = 0;
         layer_byte < storage_.layout().layer_bytes(storage_.num_blocks());
         ++layer_byte) {
      storage_.layer(1)[layer_byte] = std::byte{0};
    }
    Store(3, chunk);
    EXPECT_EQ(LoadAll(LoadKey), keys) << chunk;
    EXPECT_EQ(LoadAll(LoadValue), values) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, KvRowsTest,
    ::testing::Values(KvCacheDtype::kF32, KvCacheDtype::kBF16,
                      KvCacheDtype::kInt16, KvCacheDtype::kInt8),
    [](const auto& info) { return std::string(LayoutOf(info.param).name); });

// To eight bits, by arithmetic.
float RoundedToBFloat16(float x) {
  if (!std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 8, -133));
  const double rounded = std::nearbyint(x / step) * step;
  return std::abs(rounded) < 0x1p128 ? static_cast<float>(rounded)
                                     : std::copysign(HUGE_VALF, x);
}

// Every bfloat16, which takes in subnormals, infinities and NaN, and what lies
// between it and the next: ties and their neighbours.
std::vector<float> FloatsAroundEveryBFloat16() {
  std::vector<float> floats;
  for (uint32_t high = 0; high < 1u << 16; ++high) {
    for (const uint32_t low :
         {0x0u, 0x1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu, 0x4000u, 0xC000u}) {
      floats.push_back(std::bit_cast<float>(high << 16 | low));
    }
  }
  return floats;
}

TEST(KvRowsBFloat16Test, RoundsToTheNearestAndTiesToEven) {
  constexpr int64_t kDim = 256;
  const std::vector<float> floats = FloatsAroundEveryBFloat16();
  const int64_t num_rows = std::ssize(floats) / kDim;
  auto storage = PagedKvStorage::Create({.num_layers = 1,
                                         .num_key_value_heads = 1,
                                         .head_dim = kDim,
                                         .block_size = 16,
                                         .dtype = KvCacheDtype::kBF16},
                                        num_rows / 16);
  ASSERT_TRUE(storage.ok());
  std::vector<int32_t> table(static_cast<size_t>(num_rows / 16));
  std::iota(table.begin(), table.end(), 0);
  ThreadTeam team(1);
  StoreKeysAndValues(team, storage->layout(),
                     {.k = floats.data(),
                      .v = floats.data(),
                      .k_row_stride = kDim,
                      .v_row_stride = kDim,
                      .num_rows = num_rows,
                      .block_table = table},
                     storage->layer(0));
  for (int64_t row = 0; row < num_rows; ++row) {
    const KvPlace place = {.layout = storage->layout(),
                           .layer = storage->layer(0),
                           .block_table = table,
                           .position = row};
    float key[kDim];
    float value[kDim];
    LoadKey(place, key);
    LoadValue(place, value);
    for (int64_t d = 0; d < kDim; ++d) {
      const float src = floats[static_cast<size_t>(row * kDim + d)];
      const float expected = RoundedToBFloat16(src);
      ASSERT_EQ(std::signbit(key[d]), std::signbit(src)) << src;
      ASSERT_EQ(std::signbit(value[d]), std::signbit(src)) << src;
      if (std::isnan(src)) {
        ASSERT_TRUE(std::isnan(key[d]) && std::isnan(value[d]));
      } else {
        ASSERT_EQ(key[d], expected) << src;
        ASSERT_EQ(value[d], expected) << src;
      }
    }
  }
}

}  // namespace
}  // namespace headrace
