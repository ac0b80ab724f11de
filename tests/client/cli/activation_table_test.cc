#include "client/cli/activation_table.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/crc/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ActivationChunk Chunk(v1::HookPoint hook, uint64_t number,
                          const std::vector<float>& values) {
  v1::ActivationChunk chunk;
  chunk.set_hook(hook);
  chunk.set_layer(0);
  chunk.set_dtype(v1::WIRE_DTYPE_F32);
  chunk.set_row_count(1);
  chunk.set_width(static_cast<uint32_t>(values.size()));
  chunk.add_positions(3);
  chunk.set_data(std::string(reinterpret_cast<const char*>(values.data()),
                             values.size() * sizeof(float)));
  chunk.set_crc32c(static_cast<uint32_t>(absl::ComputeCrc32c(chunk.data())));
  chunk.set_sequence_number(number);
  return chunk;
}

TEST(ActivationTableTest, KeepsRowsByHookAndLayer) {
  ActivationTable table;

  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_EMBED, 0, {1, 2})).ok());

  const ActivationArray* array = table.Find(v1::HOOK_POINT_EMBED, 0);
  ASSERT_NE(array, nullptr);
  EXPECT_THAT(array->values, ElementsAre(1, 2));
  EXPECT_THAT(array->positions, ElementsAre(3));
}

TEST(ActivationTableTest, ReadsEveryWireType) {
  v1::ActivationChunk halves = Chunk(v1::HOOK_POINT_EMBED, 0, {0, 0});
  const auto set_data = [](v1::ActivationChunk& chunk, std::string data) {
    chunk.set_data(std::move(data));
    chunk.set_crc32c(static_cast<uint32_t>(absl::ComputeCrc32c(chunk.data())));
  };
  halves.set_dtype(v1::WIRE_DTYPE_F16);  // 1.5, -2
  set_data(halves, std::string("\x00\x3E\x00\xC0", 4));
  v1::ActivationChunk int8 = Chunk(v1::HOOK_POINT_RESID_POST, 1, {0, 0});
  int8.set_dtype(v1::WIRE_DTYPE_INT8);
  set_data(int8, std::string("\xFE\x00", 2));
  int8.add_scales(0.5f);
  int8.add_outlier_rows(0);
  int8.add_outlier_dimensions(1);
  int8.add_outlier_values(20000);
  v1::ActivationChunk broken = int8;
  broken.set_sequence_number(2);
  broken.set_outlier_dimensions(0, 2);

  ActivationTable table;
  ASSERT_TRUE(table.Add(halves).ok());
  ASSERT_TRUE(table.Add(int8).ok());

  EXPECT_THAT(table.Find(v1::HOOK_POINT_EMBED, 0)->values,
              ElementsAre(1.5f, -2));
  EXPECT_THAT(table.Find(v1::HOOK_POINT_RESID_POST, 0)->values,
              ElementsAre(-1, 20000));
  EXPECT_THAT(std::string(table.Add(broken).message()), HasSubstr("outliers"));
}

TEST(ActivationTableTest, RowsByKeyAreDenseByHeadAndPosition) {
  const auto chunk = [](uint64_t number, uint32_t head) {
    v1::ActivationChunk chunk =
        Chunk(v1::HOOK_POINT_ATTN_PROBS, number, {0.25f, 0.75f, 0, 0});
    chunk.set_head(head);
    chunk.add_key_starts(1);
    chunk.add_key_counts(2);
    return chunk;
  };
  ActivationTable table;
  ASSERT_TRUE(table.Add(chunk(0, 5)).ok());
  ASSERT_TRUE(table.Add(chunk(1, 2)).ok());

  EXPECT_TRUE(table.arrays().empty());
  const AttentionArray& array = table.attention().begin()->second;
  EXPECT_EQ(array.keys(), 3);
  EXPECT_EQ(array.heads.begin()->first, 2);
  EXPECT_THAT(array.Dense(-1), ElementsAre(-1, 0.25f, 0.75f, -1, 0.25f, 0.75f));
  EXPECT_THAT(array.KeyPositions(), ::testing::IsEmpty());

  v1::ActivationChunk wrong = chunk(2, 2);
  wrong.set_key_counts(0, 5);
  EXPECT_EQ(table.Add(wrong).code(), absl::StatusCode::kDataLoss);
}

TEST(ActivationTableTest, TopKeysKeepTheirPositions) {
  v1::ActivationChunk chunk =
      Chunk(v1::HOOK_POINT_ATTN_PROBS, 0, {0.75f, 0.25f, 0});
  chunk.set_head(1);
  chunk.add_key_starts(0);
  chunk.add_key_counts(2);
  for (const uint32_t key : {7u, 3u, 0u}) chunk.add_key_positions(key);
  ActivationTable table;
  ASSERT_TRUE(table.Add(chunk).ok());

  const AttentionArray& array = table.attention().begin()->second;
  EXPECT_THAT(array.Dense(0), ElementsAre(0.75f, 0.25f));
  EXPECT_THAT(array.KeyPositions(), ElementsAre(7, 3));
}

TEST(ActivationTableTest, DamagedAndMissingChunksAreNoticed) {
  ActivationTable table;
  v1::ActivationChunk damaged = Chunk(v1::HOOK_POINT_EMBED, 0, {1, 2});
  (*damaged.mutable_data())[0] ^= 1;
  EXPECT_THAT(std::string(table.Add(damaged).message()), HasSubstr("checksum"));
  EXPECT_THAT(
      std::string(table.Add(Chunk(v1::HOOK_POINT_EMBED, 1, {1})).message()),
      HasSubstr("where 0 was due"));
}

TEST(ActivationTableTest, VerifiesSumsExactly) {
  ActivationTable table;
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_RESID_PRE, 0, {1, 2})).ok());
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_ATTN_OUT, 1, {0.5, 0.25})).ok());
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_RESID_MID, 2, {1.5, 2.25})).ok());
  int64_t checked = 0;
  EXPECT_TRUE(table.Verify(checked).ok());
  EXPECT_EQ(checked, 1);
}

TEST(ActivationTableTest, NamesTheFirstRowThatFails) {
  ActivationTable table;
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_RESID_PRE, 0, {1, 2})).ok());
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_ATTN_OUT, 1, {0.5, 0.25})).ok());
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_RESID_MID, 2, {1.5, 2.5})).ok());
  int64_t checked = 0;
  EXPECT_THAT(std::string(table.Verify(checked).message()),
              HasSubstr("position 3, dimension 1"));
}

// Left out for a slow reader, say.
TEST(ActivationTableTest, ArraysOfDifferentRowsAreNotAdded) {
  ActivationTable table;
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_RESID_PRE, 0, {1})).ok());
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_ATTN_OUT, 1, {2})).ok());
  ASSERT_TRUE(table.Add(Chunk(v1::HOOK_POINT_RESID_MID, 2, {3})).ok());
  v1::ActivationChunk more = Chunk(v1::HOOK_POINT_RESID_MID, 3, {3});
  more.set_positions(0, 4);
  ASSERT_TRUE(table.Add(more).ok());

  int64_t checked = 0;
  EXPECT_THAT(std::string(table.Verify(checked).message()),
              HasSubstr("layer 0 has different rows of"));
}

}  // namespace
}  // namespace headrace::cli
