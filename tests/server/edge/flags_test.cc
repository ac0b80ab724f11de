#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/flag_text.h"
#include "server/ready_line.h"
#include "server/rope_flags.h"
#include "tests/server/server_fixture.h"

ABSL_FLAG(int, example_of_flags_test, 7, "An example.");

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(FlagTextTest, ARepeatedFlagIsAList) {
  EXPECT_THAT(JoinRepeatedFlag({"program", "--listen", "a", "--x", "1",
                                "-listen=b", "--listen=c,d"},
                               "listen"),
              ElementsAre("program", "--listen=a,b,c,d", "--x", "1"));
}

TEST(FlagTextTest, OtherArgumentsStayAsTheyAre) {
  EXPECT_THAT(JoinRepeatedFlag({"program", "--listener=1"}, "listen"),
              ElementsAre("program", "--listener=1"));
  EXPECT_THAT(JoinRepeatedFlag({"program", "--", "--listen=a"}, "listen"),
              ElementsAre("program", "--", "--listen=a"));
  EXPECT_THAT(JoinRepeatedFlag({"program", "--listen"}, "listen"),
              ElementsAre("program", "--listen"))
      << "the parser says what is missing";
}

TEST(FlagTextTest, HelpIsAskedForByFlagOnly) {
  EXPECT_TRUE(AsksForHelp({"program", "--x", "--help"}));
  EXPECT_TRUE(AsksForHelp({"program", "-h"}));
  EXPECT_FALSE(AsksForHelp({"program", "help"}));
  EXPECT_FALSE(AsksForHelp({"program", "--", "--help"}));
}

TEST(FlagTextTest, HelpListsTheFlagsOfAFile) {
  const std::string help = FlagHelp("usage", "edge/flags_test.cc");

  EXPECT_THAT(help, HasSubstr("--example_of_flags_test"));
  EXPECT_THAT(help, HasSubstr("An example. Default: 7."));
  EXPECT_EQ(FlagHelp("usage", "no/such/file.cc"), "usage\n\nFlags:\n");
}

TEST(RopeFlagsTest, UnsetKeepsTheFiles) {
  const auto request = ToRopeRequest(RopeFlags{.context_length = 100});

  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->kind, RopeRequest::Kind::kUnset);
  EXPECT_EQ(request->max_context, 100);
  EXPECT_FALSE(request->rope_theta.has_value());
}

TEST(RopeFlagsTest, AScalingTakesItsParameters) {
  const auto request = ToRopeRequest(RopeFlags{.scaling = "longrope",
                                               .factor = 4,
                                               .theta = 5e5,
                                               .short_factor = {"1", "1.5"},
                                               .long_factor = {"2", "4"}});

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->kind, RopeRequest::Kind::kScaling);
  EXPECT_EQ(request->scaling.type, RopeType::kLongRope);
  EXPECT_EQ(request->scaling.factor, 4);
  EXPECT_EQ(request->rope_theta, 5e5);
  EXPECT_THAT(request->scaling.short_factor, ElementsAre(1, 1.5));
}

TEST(RopeFlagsTest, WhatMeansNothingIsRefused) {
  EXPECT_THAT(
      std::string(
          ToRopeRequest(RopeFlags{.scaling = "magic"}).status().message()),
      HasSubstr("\"magic\""));
  EXPECT_FALSE(ToRopeRequest(RopeFlags{.factor = 4}).ok())
      << "a factor of what?";
  EXPECT_FALSE(ToRopeRequest(RopeFlags{.scaling = "none", .factor = 4}).ok());
  EXPECT_THAT(std::string(ToRopeRequest(RopeFlags{.scaling = "longrope",
                                                  .short_factor = {"x"}})
                              .status()
                              .message()),
              HasSubstr("--rope_short_factor"));
}

class LineWriterTest : public ::testing::Test {
 protected:
  LineWriterTest() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~LineWriterTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  std::array<int, 2> ends_{};
};

TEST_F(LineWriterTest, ALineArrivesWhole) {
  LineWriter writer(ends_[1], "one line\n");
  writer.Wait(absl::Seconds(20));
  char buffer[100];

  EXPECT_EQ(read(ends_[0], buffer, sizeof(buffer)), 9);
}

// A full pipe blocks the server (hyrise/hyrise#2650).
TEST_F(LineWriterTest, AFullPipeIsWaitedForAndThenWritten) {
  const std::string block(4096, 'x');
  fcntl(ends_[1], F_SETFL, O_NONBLOCK);
  while (write(ends_[1], block.data(), block.size()) > 0) {
  }
  fcntl(ends_[1], F_SETFL, 0);
  LineWriter writer(ends_[1], "one line\n");
  writer.Wait(absl::Milliseconds(1));

  std::string seen;
  std::string buffer(65536, '\0');
  while (!seen.ends_with("one line\n")) {
    const ssize_t n = read(ends_[0], buffer.data(), buffer.size());
    ASSERT_GT(n, 0);
    seen.append(buffer, 0, static_cast<size_t>(n));
  }
}

TEST_F(LineWriterTest, AFullPipeDoesNotHoldUpTheEnd) {
  const std::string block(4096, 'x');
  fcntl(ends_[1], F_SETFL, O_NONBLOCK);
  while (write(ends_[1], block.data(), block.size()) > 0) {
  }
  fcntl(ends_[1], F_SETFL, 0);

  LineWriter writer(ends_[1], "one line\n");  // gives up
}

TEST_F(LineWriterTest, AClosedDescriptorIsGivenUp) {
  const int closed = dup(ends_[1]);
  close(closed);
  LineWriter writer(closed, "one line\n");

  writer.Wait(absl::Seconds(20));
}

using ReadyLineTest = ServerFixture;

TEST_F(ReadyLineTest, SaysWhereAndWhatIsServed) {
  Start();

  const std::string line = MakeReadyLine(*server_);

  EXPECT_TRUE(line.ends_with("}\n"));
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["event"], "serving");
  EXPECT_EQ(json["listen"][0], server_->addresses()[0]);
  EXPECT_EQ(json["model"], "fake");
}

}  // namespace
}  // namespace headrace
