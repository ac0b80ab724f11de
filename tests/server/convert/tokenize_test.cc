#include "server/convert/tokenize.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/convert/convert_fixture.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using TokenizeTest = ConvertFixture;

TEST_F(TokenizeTest, GivesIdsAndPieces) {
  v1::TokenizeRequest proto;
  proto.add_texts(std::string("a\0\xFF", 3));
  proto.add_texts("");

  const auto response = HandleTokenize(proto, context_);

  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->results(0).ids(), ElementsAre('a', 0, 255));
  EXPECT_EQ(response->results(0).pieces(2), "\xFF");
  EXPECT_EQ(response->results(1).ids_size(), 0);
}

TEST_F(TokenizeTest, NeedsTexts) {
  EXPECT_THAT(FieldsOf(HandleTokenize({}, context_).status()),
              ElementsAre("texts"));
}

// A unary reply over 4 MiB fails only at the client
// (epigramai/tfserving-python-predict-client#10).
TEST_F(TokenizeTest, ALargeReplyIsRefusedWithItsSize) {
  v1::TokenizeRequest proto;
  proto.add_texts(std::string(1'200'000, 'a'));

  const absl::Status status = HandleTokenize(proto, context_).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("4800000 bytes"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("4194304"));
}

TEST_F(TokenizeTest, DetokenizeGivesTheExactBytesAndValidText) {
  v1::DetokenizeRequest proto;
  for (const uint32_t id : {258u, 97u, 255u, 0u}) proto.add_ids(id);

  const auto all = HandleDetokenize(proto, context_);
  EXPECT_EQ(all->data(), std::string("<|im_start|>a\xFF\0", 15));
  EXPECT_EQ(all->text(), std::string("<|im_start|>a\uFFFD\0", 17));
  proto.set_skip_special_tokens(true);
  EXPECT_EQ(HandleDetokenize(proto, context_)->data(),
            std::string("a\xFF\0", 3));
}

TEST_F(TokenizeTest, DetokenizeChecksIds) {
  v1::DetokenizeRequest proto;
  proto.add_ids(259);
  proto.add_ids(260);
  proto.add_ids(4294967295u);

  EXPECT_THAT(FieldsOf(HandleDetokenize(proto, context_).status()),
              ElementsAre("ids[1]", "ids[2]"));
}

TEST_F(TokenizeTest, ALargeDetokenizationIsRefused) {
  v1::DetokenizeRequest proto;
  for (int i = 0; i < 300'000; ++i) proto.add_ids(kFakeImStart);

  EXPECT_EQ(HandleDetokenize(proto, context_).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace headrace
