#include "server/vectors/vector_store.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/vectors/content_hash.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VectorStoreTest : public ::testing::Test {
 protected:
  // A vector of four floats costs 16 bytes and the entry.
  static constexpr int64_t kCost = 16 + kEntryBytes;

  absl::StatusOr<absl::Time> Put(const std::string& name, float value,
                                 absl::Duration time_to_live) {
    absl::StatusOr<Reservation> bytes = store_.Reserve(16);
    if (!bytes.ok()) return bytes.status();
    StoredRows rows;
    rows.vector.assign(4, value);
    rows.bytes = *std::move(bytes);
    return store_.Put(name, std::move(rows), time_to_live);
  }

  absl::Time now_ = absl::UnixEpoch();
  VectorStore store_{{.max_bytes = 2 * kCost,
                      .max_time_to_live = absl::Hours(1),
                      .now = [this] { return now_; }}};
};

TEST_F(VectorStoreTest, FindsWhatWasPut) {
  ASSERT_TRUE(Put("a", 1, absl::Seconds(10)).ok());

  const StoredEntry found = store_.Find("a");
  ASSERT_NE(found.rows, nullptr);
  EXPECT_THAT(found.rows->vector, ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(found.expires, now_ + absl::Seconds(10));
  EXPECT_EQ(store_.Find("b").rows, nullptr);
}

TEST_F(VectorStoreTest, ForgetsWhenTheTimeHasPassed) {
  ASSERT_TRUE(Put("a", 1, absl::Seconds(10)).ok());
  now_ += absl::Seconds(10) - absl::Nanoseconds(1);
  EXPECT_NE(store_.Find("a").rows, nullptr);

  now_ += absl::Nanoseconds(1);
  store_.DropExpired();
  EXPECT_EQ(store_.bytes_used(), 0);
  EXPECT_EQ(store_.Find("a").rows, nullptr);
}

TEST_F(VectorStoreTest, APutOfWhatIsThereKeepsTheLaterTime) {
  ASSERT_TRUE(Put("a", 1, absl::Seconds(10)).ok());

  EXPECT_EQ(*Put("a", 1, absl::Seconds(5)), now_ + absl::Seconds(10));
  EXPECT_EQ(*Put("a", 1, absl::Seconds(20)), now_ + absl::Seconds(20));
  EXPECT_EQ(store_.Extend("a", absl::Seconds(30)), now_ + absl::Seconds(30));
  EXPECT_EQ(store_.Extend("a", absl::Seconds(1)), now_ + absl::Seconds(30));
  EXPECT_EQ(store_.Extend("b", absl::Seconds(1)), std::nullopt);
  EXPECT_EQ(store_.bytes_used(), kCost);
}

TEST_F(VectorStoreTest, RefusesWhatDoesNotFitWithTheNumbers) {
  ASSERT_TRUE(Put("a", 1, absl::Seconds(10)).ok());
  ASSERT_TRUE(Put("b", 2, absl::Seconds(20)).ok());

  const absl::Status full = Put("c", 3, absl::Seconds(10)).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()),
              HasSubstr("528 bytes do not fit beside the 1056 that vectors and "
                        "kept rows take; the limit is 1056"));

  now_ += absl::Seconds(10);  // the first one's time has passed
  EXPECT_TRUE(Put("c", 3, absl::Seconds(10)).ok());
}

TEST_F(VectorStoreTest, WhatIsInUseStaysWholeAndItsBytesTaken) {
  ASSERT_TRUE(Put("a", 1, absl::Seconds(10)).ok());
  StoredEntry used = store_.Find("a");

  EXPECT_TRUE(store_.Delete("a"));
  EXPECT_FALSE(store_.Delete("a"));
  EXPECT_EQ(store_.Find("a").rows, nullptr);
  EXPECT_THAT(used.rows->vector, ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(store_.bytes_used(), kCost);

  used.rows = nullptr;
  EXPECT_EQ(store_.bytes_used(), 0);
}

TEST_F(VectorStoreTest, AReservationThatShrinksGivesTheRestBack) {
  absl::StatusOr<Reservation> bytes = store_.Reserve(500);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(store_.bytes_used(), 500 + kEntryBytes);

  bytes->ShrinkTo(100);
  bytes->ShrinkTo(200);
  EXPECT_EQ(store_.bytes_used(), 100);
  *bytes = Reservation();
  EXPECT_EQ(store_.bytes_used(), 0);
}

TEST(StoredRowsTest, FindsARowByHookLayerAndPosition) {
  StoredRows rows;
  rows.blocks.push_back({.hook = HookPoint::kResidPost,
                         .layer = 2,
                         .width = 2,
                         .positions = {3, 7},
                         .values = {1, 2, 3, 4}});

  EXPECT_THAT(rows.Find(HookPoint::kResidPost, 2, 7), ElementsAre(3, 4));
  EXPECT_THAT(rows.Find(HookPoint::kResidPost, 2, 4), IsEmpty());
  EXPECT_THAT(rows.Find(HookPoint::kResidPost, 1, 7), IsEmpty());
  EXPECT_THAT(rows.Find(HookPoint::kResidPre, 2, 7), IsEmpty());
}

// FIPS 180-2, appendix B.1.
TEST(ContentHashTest, IsSha256) {
  ContentHash hash;
  hash.Add("a");
  hash.Add("bc");

  const std::string digest = hash.Finish();
  EXPECT_EQ(digest,
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
  EXPECT_TRUE(IsContentHash(digest));
  EXPECT_FALSE(IsContentHash(digest.substr(1)));
  EXPECT_FALSE(IsContentHash("BA" + digest.substr(2)));
}

}  // namespace
}  // namespace headrace
