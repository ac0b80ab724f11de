#include "client/cli/bench_load.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(BenchLoadsTest, OneRunForEachConcurrencyAndRate) {
  const auto loads =
      BenchLoads({.concurrency = {"1", "16"}, .arrival_rates = {"0.5"}});

  ASSERT_TRUE(loads.ok()) << loads.status();
  ASSERT_THAT(*loads, SizeIs(3));
  EXPECT_EQ((*loads)[1].concurrency, 16);
  EXPECT_FALSE((*loads)[1].open());
  EXPECT_EQ((*loads)[2].arrival_rate, 0.5);
  EXPECT_TRUE((*loads)[2].open());
}

TEST(BenchLoadsTest, NothingAskedIsOneClient) {
  const auto loads = BenchLoads({});

  ASSERT_TRUE(loads.ok());
  ASSERT_THAT(*loads, SizeIs(1));
  EXPECT_EQ((*loads)[0].concurrency, 1);
}

TEST(BenchLoadsTest, RefusesWhatIsNoNumberInItsRange) {
  for (const char* text : {"0", "-1", "two", "", "5000", "1.5"}) {
    EXPECT_THAT(
        std::string(BenchLoads({.concurrency = {text}}).status().message()),
        HasSubstr("--concurrency"))
        << text;
  }
  for (const char* text : {"0", "-1", "fast", "", "nan", "inf"}) {
    EXPECT_THAT(
        std::string(BenchLoads({.arrival_rates = {text}}).status().message()),
        HasSubstr("--arrival_rates"))
        << text;
  }
}

TEST(PoissonArrivalsTest, HaveTheRateAndItsSpread) {
  const std::vector<double> arrivals = PoissonArrivals(20000, 50, 7);

  ASSERT_THAT(arrivals, SizeIs(20000));
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
  EXPECT_NEAR(arrivals.back(), 400, 400 * 0.03);
  // Exponential gaps: the mean is the standard deviation, and a share of 1/e
  // is longer than the mean.
  double squares = 0;
  int longer = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    const double gap = arrivals[i] - arrivals[i - 1];
    squares += gap * gap;
    longer += gap > 0.02 ? 1 : 0;
  }
  EXPECT_NEAR(squares / 20000, 2 * 0.02 * 0.02, 0.0001);
  EXPECT_NEAR(longer / 20000.0, 0.3679, 0.02);
}

TEST(PoissonArrivalsTest, FollowTheSeed) {
  EXPECT_EQ(PoissonArrivals(10, 3, 1), PoissonArrivals(10, 3, 1));
  EXPECT_NE(PoissonArrivals(10, 3, 1), PoissonArrivals(10, 3, 2));
}

TEST(BenchReportTest, LatenciesByPercentileAndThroughput) {
  const std::vector<BenchSample> samples = {
      {.token_times = {1, 1.5, 3}, .end = 3.25},
      {.token_times = {2, 2.5, 3}, .end = 3.5},
      {.token_times = {4}, .end = 4}};

  const nlohmann::ordered_json report = BenchReport(
      samples, 14, {.concurrency = 2}, {.requests = 3, .prompt_tokens = 64});

  EXPECT_EQ(report["concurrency"], 2);
  EXPECT_FALSE(report.contains("arrival_rate"));
  EXPECT_EQ(report["time_to_first_token_seconds"]["p50"], 2.0);
  EXPECT_EQ(report["time_to_first_token_seconds"]["max"], 4.0);
  EXPECT_EQ(report["time_per_output_token_seconds"]["p99"], 1.0);
  EXPECT_EQ(report["inter_token_latency_seconds"]["p50"], 0.5);
  EXPECT_EQ(report["inter_token_latency_seconds"]["max"], 1.5);
  EXPECT_EQ(report["request_latency_seconds"]["p50"], 3.5);
  EXPECT_EQ(report["output_tokens_per_second"], 0.5);
  EXPECT_THAT(FormatBenchReport(report), HasSubstr("between tokens"));
}

TEST(BenchReportTest, WhatWasNotMeasuredIsNull) {
  const nlohmann::ordered_json report =
      BenchReport({{.token_times = {1}, .end = 1}}, 1, {.arrival_rate = 2},
                  {.arrival_seed = 9, .requests = 1});

  EXPECT_TRUE(report["inter_token_latency_seconds"]["p50"].is_null());
  EXPECT_EQ(report["arrival_rate"], 2.0);
  EXPECT_EQ(report["arrival_seed"], 9);
  EXPECT_THAT(FormatBenchReport(report), HasSubstr("2 requests/s arrive"));
}

}  // namespace
}  // namespace headrace::cli
