#include "server/batching/stream_text.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "tests/fakes/fake_tokenizer.h"

namespace headrace {
namespace {

// Feeds `text`, byte by byte, and then the end when it has not come.
struct Told {
  std::string text;
  ChoiceEndEvent end;
};

Told Tell(const Request& request, std::string_view text) {
  const FakeTokenizer tokenizer(/*adds_bos=*/false);
  StreamText stream(&tokenizer, request, /*choice=*/0);
  Told told;
  for (const char byte : text) {
    if (stream.finished()) break;
    told.text += stream.Add(static_cast<unsigned char>(byte)).text;
  }
  stream.Finish(FinishReason::kTimeLimit);
  told.end = stream.end();
  told.text += told.end.text;
  return told;
}

Request Limited(int64_t max_tokens) {
  Request request;
  request.stop.max_tokens = max_tokens;
  request.sequence.end_token_ids = {kFakeEos, '!'};
  return request;
}

TEST(StreamTextTest, EndsAtMaxTokens) {
  const Told told = Tell(Limited(3), "abcdef");

  EXPECT_EQ(told.text, "abc");
  EXPECT_EQ(told.end.reason, FinishReason::kMaxTokens);
  EXPECT_EQ(told.end.generated, 3);
}

TEST(StreamTextTest, SaysWhenTheContextWasTheLimit) {
  Request request = Limited(3);
  request.stop.limited_by_context = true;

  EXPECT_EQ(Tell(request, "abcdef").end.reason, FinishReason::kContextFull);
}

TEST(StreamTextTest, AnEndTokenHasNoTextAndIsCounted) {
  const Told told = Tell(Limited(100), "ab!cd");

  EXPECT_EQ(told.text, "ab");
  EXPECT_EQ(told.end.reason, FinishReason::kStopToken);
  EXPECT_EQ(told.end.stop_token_id, '!');
  EXPECT_EQ(told.end.generated, 3);
}

TEST(StreamTextTest, AnEndTokenOnTheLastPlaceIsTheReason) {
  EXPECT_EQ(Tell(Limited(3), "ab!").end.reason, FinishReason::kStopToken);
}

TEST(StreamTextTest, ControlTokensHaveNoTextUnlessAskedFor) {
  const FakeTokenizer tokenizer(/*adds_bos=*/false);
  Request request = Limited(100);
  StreamText skipping(&tokenizer, request, 0);
  const TokenEvent skipped = skipping.Add(kFakeImStart);
  EXPECT_TRUE(skipped.special);
  EXPECT_EQ(skipped.text, "");

  request.skip_special_tokens = false;
  StreamText showing(&tokenizer, request, 0);
  EXPECT_EQ(showing.Add(kFakeImStart).text, "<|im_start|>");
}

// A prefix of a stop string never leaks into the stream
// (vllm-project/vllm#3574, huggingface/text-generation-inference#1254).
TEST(StreamTextTest, NoPartOfAStopStringIsShown) {
  Request request = Limited(100);
  request.stop.stop_strings = {"STOP"};
  const Told told = Tell(request, "one STOP two");

  EXPECT_EQ(told.text, "one ");
  EXPECT_EQ(told.end.reason, FinishReason::kStopString);
  EXPECT_EQ(told.end.stop_string, "STOP");
  EXPECT_EQ(told.end.generated, 8);
}

TEST(StreamTextTest, TheStopStringIsShownWhenAskedFor) {
  Request request = Limited(100);
  request.stop.stop_strings = {"STOP"};
  request.stop.include_stop_string = true;

  EXPECT_EQ(Tell(request, "one STOP two").text, "one STOP");
}

// Held-back text comes out at the end (LostRuins/koboldcpp#1031).
TEST(StreamTextTest, AStopStringThatWaitedForALongerOneIsTheReason) {
  Request request = Limited(3);
  request.stop.stop_strings = {"\n", "\n\n"};

  const Told at_max_tokens = Tell(request, "ab\n");
  request.stop.max_tokens = 100;
  const Told at_end_token = Tell(request, "ab\n!");

  for (const Told& told : {at_max_tokens, at_end_token}) {
    EXPECT_EQ(told.text, "ab");
    EXPECT_EQ(told.end.reason, FinishReason::kStopString);
    EXPECT_EQ(told.end.stop_string, "\n");
    EXPECT_FALSE(told.end.stop_token_id.has_value());
  }
}

TEST(StreamTextTest, HeldBackTextComesOutAtTheEnd) {
  Request request = Limited(7);
  request.stop.stop_strings = {"STOP"};
  const Told told = Tell(request, "one STO");

  EXPECT_EQ(told.text, "one STO");
  EXPECT_EQ(told.end.text, "STO");
}

TEST(StreamTextTest, MinTokensKeepsStopsFromEndingEarlier) {
  Request request = Limited(100);
  request.sequence.min_tokens = 4;
  request.stop.stop_strings = {"b"};
  const Told told = Tell(request, "a!bcbd");

  EXPECT_EQ(told.text, "a!bc");
  EXPECT_EQ(told.end.generated, 5);
}

TEST(StreamTextTest, AnUnfinishedCharacterBecomesAReplacementAtTheEnd) {
  const Told told = Tell(Limited(100), "a\xE2\x82");

  EXPECT_EQ(told.text, "a\uFFFD");
}

TEST(StreamTextTest, CharactersAreNeverSplit) {
  const FakeTokenizer tokenizer(/*adds_bos=*/false);
  const Request request = Limited(100);
  StreamText stream(&tokenizer, request, 0);

  EXPECT_EQ(stream.Add(0xE2).text, "");
  EXPECT_EQ(stream.Add(0x82).text, "");
  EXPECT_EQ(stream.Add(0xAC).text, "\u20AC");
}

TEST(StreamTextTest, WithoutATokenizerThereAreOnlyIds) {
  const Request request = Limited(2);
  StreamText stream(/*tokenizer=*/nullptr, request, 0);

  EXPECT_EQ(stream.Add('a').text, "");
  EXPECT_EQ(stream.Add('b').index, 1);
  EXPECT_EQ(stream.end().reason, FinishReason::kMaxTokens);
}

}  // namespace
}  // namespace headrace
