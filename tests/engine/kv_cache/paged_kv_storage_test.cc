#include "engine/kv_cache/paged_kv_storage.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

constexpr KvShape kShape = {.num_layers = 2,
                            .num_key_value_heads = 3,
                            .head_dim = 20,
                            .block_size = 16};

float ValueOf(int64_t row, int64_t head, int64_t lane) {
  return static_cast<float>(row * 1000 + head * 100 + lane);
}

TEST(PagedKvStorageTest, PutsRowsWhereAttentionReadsThem) {
  PagedKvStorage storage = PagedKvStorage::Create(kShape, 10).value();
  const int64_t stride = 3 * 20 + 7;
  const int64_t num_rows = 37;
  std::vector<float> k(static_cast<size_t>(num_rows * stride));
  std::vector<float> v = k;
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t lane = 0; lane < 60; ++lane) {
      k[static_cast<size_t>(row * stride + lane)] =
          ValueOf(row + 5, lane / 20, lane % 20);
      v[static_cast<size_t>(row * stride + lane)] =
          -ValueOf(row + 5, lane / 20, lane % 20);
    }
  }
  const std::vector<int32_t> table = {4, 9, 0};

  storage.WriteRows(1, {.k = k.data(),
                        .v = v.data(),
                        .k_row_stride = stride,
                        .v_row_stride = stride,
                        .num_rows = num_rows,
                        .first_position = 5,
                        .block_table = table});

  const KvLayout& layout = storage.layout();
  EXPECT_EQ(layout.width(), 32);
  for (int64_t position = 5; position < 5 + num_rows; ++position) {
    const int64_t block = table[static_cast<size_t>(position / 16)];
    for (int64_t lane = 0; lane < 60; ++lane) {
      const int64_t offset = layout.keys_offset(block, lane / 20);
      const float* keys = storage.layer(1) + offset;
      const float* values = keys + layout.values_offset();
      EXPECT_EQ(keys[lane % 20 * 16 + position % 16],
                ValueOf(position, lane / 20, lane % 20));
      EXPECT_EQ(values[position % 16 * 32 + lane % 20],
                -ValueOf(position, lane / 20, lane % 20));
    }
  }
  const int64_t first = layout.keys_offset(table[0], 0);
  EXPECT_EQ(storage.layer(1)[first], 0);      // position 0 of layer 1
  EXPECT_EQ(storage.layer(0)[first + 5], 0);  // position 5 of layer 0
}

TEST(PagedKvStorageTest, CountsTheBytesOfABlock) {
  EXPECT_EQ(PagedKvStorage::BytesPerBlock(kShape), 2 * 3 * 16 * (32 + 32) * 4);
}

TEST(PagedKvStorageTest, TakesAddressesNotMemory) {
  // 26 gigabytes; only what is written counts.
  EXPECT_TRUE(PagedKvStorage::Create(kShape, 1 << 20).ok());
}

TEST(PagedKvStorageTest, RefusesWhatMakesNoSense) {
  KvShape shape = kShape;
  shape.block_size = 24;
  EXPECT_THAT(PagedKvStorage::Create(shape, 10).status().message(),
              HasSubstr("KV block size is 24 rows"));
  shape = kShape;
  shape.head_dim = 0;
  EXPECT_EQ(PagedKvStorage::Create(shape, 10).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(PagedKvStorage::Create(kShape, 0).status().message(),
              HasSubstr("KV cache of 0 blocks"));
  const absl::Status too_large =
      PagedKvStorage::Create({.num_layers = 1 << 20,
                              .num_key_value_heads = 1 << 10,
                              .head_dim = 1 << 10,
                              .block_size = 16},
                             1 << 20)
          .status();
  EXPECT_EQ(too_large.code(), absl::StatusCode::kResourceExhausted);
}

TEST(PagedKvStorageTest, MovesItsMapping) {
  PagedKvStorage a = PagedKvStorage::Create(kShape, 1).value();
  const float* layer = a.layer(0);
  PagedKvStorage b = std::move(a);
  EXPECT_EQ(b.layer(0), layer);
}

}  // namespace
}  // namespace headrace
