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

}  // namespace
}  // namespace headrace::cli
