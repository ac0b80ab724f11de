#include "engine/ops/kv_rows.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
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
  // Half a step: 1 / 2896 or 1 / 127 of the greatest of a row, at most 1.
  const double tolerance = GetParam() == KvCacheDtype::kF32     ? 0
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

INSTANTIATE_TEST_SUITE_P(All, KvRowsTest,
                         ::testing::Values(KvCacheDtype::kF32,
                                           KvCacheDtype::kInt16,
                                           KvCacheDtype::kInt8),
                         [](const auto& info) {
                           return std::string(LayoutOf(info.param).name);
                         });

}  // namespace
}  // namespace headrace
