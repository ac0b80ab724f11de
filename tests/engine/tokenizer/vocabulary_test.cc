#include "engine/tokenizer/vocabulary.h"

#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace headrace {
namespace {

TEST(VocabularyTest, FindsPiecesByTheirBytes) {
  const Vocabulary vocabulary({{"a", TokenKind::kNormal},
                               {"", TokenKind::kControl},
                               {"ab", TokenKind::kNormal}});

  EXPECT_EQ(vocabulary.size(), 3);
  EXPECT_EQ(vocabulary.BytesOf(0), "a");
  EXPECT_EQ(vocabulary.BytesOf(1), "");
  EXPECT_EQ(vocabulary.BytesOf(2), "ab");
  EXPECT_EQ(vocabulary.BytesOf(3), "");
  EXPECT_EQ(vocabulary.KindOf(1), TokenKind::kControl);
  EXPECT_EQ(vocabulary.KindOf(-1), TokenKind::kUnused);
  EXPECT_EQ(vocabulary.Find("ab"), 2);
  EXPECT_EQ(vocabulary.Find("b"), std::nullopt);
  EXPECT_EQ(vocabulary.Find(""), std::nullopt);
}

TEST(VocabularyTest, OfEqualPiecesFindsTheMostParticularThenTheFirst) {
  const Vocabulary vocabulary({{"x", TokenKind::kByte},
                               {"x", TokenKind::kNormal},
                               {"x", TokenKind::kNormal},
                               {"y", TokenKind::kUserDefined},
                               {"y", TokenKind::kNormal}});

  EXPECT_EQ(vocabulary.Find("x"), 1);
  EXPECT_EQ(vocabulary.Find("y"), 3);
}

TEST(VocabularyTest, StaysWholeWhenItMoves) {
  std::optional<Vocabulary> first;
  first.emplace(std::vector<Vocabulary::Piece>{{"abc", TokenKind::kNormal}});
  Vocabulary second;

  second = *std::move(first);
  first.reset();

  EXPECT_EQ(second.Find("abc"), 0);
  EXPECT_EQ(second.BytesOf(0), "abc");
}

}  // namespace
}  // namespace headrace
