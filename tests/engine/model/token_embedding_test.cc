#include "engine/model/token_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace headrace {
namespace {

using testing::ElementsAre;

constexpr std::array<float, 6> kTable = {1, 2, 3, 4, 5, 6};
TensorView Table() {
  return {.dtype = DType::kF32,
          .shape = {3, 2},
          .data = reinterpret_cast<const std::byte*>(kTable.data())};
}

TEST(TokenEmbedding, ReadsTheRowOfTheToken) {
  TokenEmbedding embedding(Table(), [] {});
  std::vector<float> row(2);
  for (int i = 0; i < 40; ++i) embedding.Read(2, row);
  EXPECT_THAT(row, ElementsAre(5, 6));
  embedding.Read(0, row);
  EXPECT_THAT(row, ElementsAre(1, 2));
}

TEST(TokenEmbedding, GivesPagesBackAfterEveryFewRows) {
  int rows_since = 0;
  int released = 0;
  TokenEmbedding embedding(Table(), [&] {
    rows_since = 0;
    ++released;
  });
  std::vector<float> row(2);
  int most = 0;
  for (int i = 0; i < 300; ++i) {
    most = std::max(most, ++rows_since);
    embedding.Read(1, row);
  }
  EXPECT_EQ(most, 16);
  EXPECT_EQ(released, 300 / 16);
}

}  // namespace
}  // namespace headrace
