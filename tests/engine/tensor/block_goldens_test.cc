// Blocks of every quantised type against the gguf package, bit for bit.
// tests/golden/block_formats/make_block_goldens.py wrote its results down.
#include <cstddef>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/block_formats.h"
#include "engine/tensor/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace headrace {
namespace {

constexpr DType kQuantizedTypes[] = {
    DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
    DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ4_Z, DType::kQ8_Z};
// Of those, the ones that the gguf package knows.
constexpr size_t kGgufTypes = 8;

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(
        static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(BlockGoldensTest, EveryBlockExpandsToTheSameBits) {
  std::ifstream file(HEADRACE_SOURCE_DIR
                     "/tests/golden/data/block_formats/gguf_blocks.jsonl");
  std::set<std::string> seen;
  std::string line;
  while (std::getline(file, line)) {
    const auto golden = nlohmann::json::parse(line);
    const std::string type = golden["type"];
    SCOPED_TRACE(line.substr(0, 80));
    const std::vector<std::byte> block = FromHex(golden["block"]);
    const std::vector<std::byte> expected = FromHex(golden["weights"]);
    for (const DType dtype : kQuantizedTypes) {
      if (LayoutOf(dtype).name != type) continue;
      seen.insert(type);
      ASSERT_EQ(static_cast<int64_t>(block.size()), LayoutOf(dtype).bytes);
      std::vector<float> weights(static_cast<size_t>(LayoutOf(dtype).elements));
      ASSERT_EQ(expected.size(), weights.size() * sizeof(float));

      DequantizeRow(dtype, block.data(), weights);

      EXPECT_EQ(std::memcmp(weights.data(), expected.data(), expected.size()),
                0);
    }
  }
  EXPECT_EQ(seen.size(), kGgufTypes);
}

// A row of several blocks, group by group: what packing reads is what
// expanding gives.
TEST(BlockGoldensTest, GroupsOfARowAreThoseOfItsBlocks) {
  for (const DType dtype : kQuantizedTypes) {
    const DTypeLayout layout = LayoutOf(dtype);
    std::vector<std::byte> row(static_cast<size_t>(3 * layout.bytes));
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = static_cast<std::byte>(37 * i + 11);
    }
    const int64_t groups = layout.elements / kGroupSize;
    for (int64_t g = 0; g < 3 * groups; ++g) {
      const StoredGroup of_row = ReadGroup(dtype, row.data(), g);
      const StoredGroup of_block =
          ReadGroup(dtype, row.data() + g / groups * layout.bytes, g % groups);

      EXPECT_EQ(of_row.scale, of_block.scale);
      EXPECT_EQ(of_row.minimum, of_block.minimum);
      EXPECT_THAT(of_row.scale_factors,
                  ::testing::ElementsAreArray(of_block.scale_factors));
      EXPECT_EQ(of_row.minimum_factor, of_block.minimum_factor);
      EXPECT_THAT(of_row.numbers,
                  ::testing::ElementsAreArray(of_block.numbers));
    }
  }
}

// Types that rows are made of: what is written is what is read.
TEST(BlockGoldensTest, WrittenGroupsAreReadBack) {
  for (const DType dtype :
       {DType::kQ4_0, DType::kQ8_0, DType::kQ4_Z, DType::kQ8_Z}) {
    SCOPED_TRACE(LayoutOf(dtype).name);
    const auto bytes = static_cast<size_t>(LayoutOf(dtype).bytes);
    std::vector<std::byte> block(bytes);
    for (size_t i = 0; i < bytes; ++i) {
      block[i] = static_cast<std::byte>(37 * i + 11);
    }
    std::vector<std::byte> written(bytes);

    WriteGroup(dtype, ReadGroup(dtype, block.data(), 0), written.data());

    EXPECT_EQ(written, block);
  }
}

}  // namespace
}  // namespace headrace
