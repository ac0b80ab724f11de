#include "engine/kv_cache/paged_kv_storage.h"

#include <cstddef>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

constexpr KvShape kShape = {.num_layers = 2,
                            .num_key_value_heads = 3,
                            .head_dim = 20,
                            .block_size = 16};

TEST(PagedKvStorageTest, CountsTheBytesOfABlock) {
  EXPECT_EQ(PagedKvStorage::BytesPerBlock(kShape), 2 * 3 * 16 * (32 + 32) * 4);
  KvShape shape = kShape;
  shape.dtype = KvCacheDtype::kInt8;  // and a scale for each key and value
  EXPECT_EQ(PagedKvStorage::BytesPerBlock(shape), 2 * 3 * 16 * (36 + 36));
  shape.dtype = KvCacheDtype::kBF16;
  EXPECT_EQ(PagedKvStorage::BytesPerBlock(shape) * 2,
            PagedKvStorage::BytesPerBlock(kShape));
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
  shape = kShape;
  shape.head_dim = 257;
  EXPECT_TRUE(PagedKvStorage::Create(shape, 10).ok());
  shape.dtype = KvCacheDtype::kBF16;
  EXPECT_TRUE(PagedKvStorage::Create(shape, 10).ok());
  shape.dtype = KvCacheDtype::kInt16;
  EXPECT_THAT(PagedKvStorage::Create(shape, 10).status().message(),
              HasSubstr("heads of 257; integers take at most 256"));
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
  const std::byte* layer = a.layer(0);
  PagedKvStorage b = std::move(a);
  EXPECT_EQ(b.layer(0), layer);
}

}  // namespace
}  // namespace headrace
