#include "client/cli/capture_builder.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::ListHookPointsResponse Hooks() {
  v1::ListHookPointsResponse hooks;
  v1::HookPointInfo& embed = *hooks.add_hooks();
  embed.set_hook(v1::HOOK_POINT_EMBED);
  embed.set_name("embed");
  v1::HookPointInfo& post = *hooks.add_hooks();
  post.set_hook(v1::HOOK_POINT_RESID_POST);
  post.set_name("resid_post");
  post.set_layer_count(30);
  v1::HookPointInfo& probs = *hooks.add_hooks();
  probs.set_hook(v1::HOOK_POINT_ATTN_PROBS);
  probs.set_name("attn_probs");
  probs.set_layer_count(30);
  probs.set_head_count(9);
  return hooks;
}

TEST(CaptureBuilderTest, HeadsAreNamedForHooksThatHaveThem) {
  const CaptureOptions options = {.hooks = "resid_post,attn_probs",
                                  .layers = "all",
                                  .heads = "1,4:6",
                                  .top_keys = 8,
                                  .rows = "last",
                                  .dtype = "f32",
                                  .compress = true};
  v1::CaptureSpec capture;
  ASSERT_TRUE(SetCapture(options, Hooks(), capture).ok());
  EXPECT_EQ(capture.hooks(0).heads_size(), 0);
  EXPECT_THAT(capture.hooks(1).heads(), ElementsAre(1, 4, 5));
  EXPECT_EQ(capture.hooks(1).top_keys(), 8u);
  EXPECT_EQ(capture.compression(), v1::COMPRESSION_ZSTD);

  CaptureOptions all = options;
  all.heads = "all";
  capture.Clear();
  ASSERT_TRUE(SetCapture(all, Hooks(), capture).ok());
  EXPECT_EQ(capture.hooks(1).heads_size(), 9);

  CaptureOptions wrong = options;
  wrong.heads = "9";
  capture.Clear();
  EXPECT_THAT(std::string(SetCapture(wrong, Hooks(), capture).message()),
              HasSubstr("--heads must be from 0 to 8; is 9"));
}

TEST(CaptureBuilderTest, LayersApplyToHooksThatHaveThem) {
  v1::CaptureSpec capture;

  ASSERT_TRUE(SetCapture({.hooks = "embed,resid_post",
                          .layers = "0,-1,4:8",
                          .rows = "prompt",
                          .dtype = "f32"},
                         Hooks(), capture)
                  .ok());

  EXPECT_EQ(capture.hooks(0).layers_size(), 0);
  EXPECT_THAT(capture.hooks(1).layers(), ElementsAre(0, -1));
  EXPECT_EQ(capture.hooks(1).ranges(0).begin(), 4);
  EXPECT_EQ(capture.hooks(1).ranges(0).end(), 8);
  EXPECT_TRUE(capture.rows().prompt().all());
  EXPECT_FALSE(capture.rows().has_generated());
}

TEST(CaptureBuilderTest, RowsByWordAndByPosition) {
  const auto rows = [](const std::string& text) {
    v1::CaptureSpec capture;
    EXPECT_TRUE(SetCapture({.hooks = "embed", .rows = text, .dtype = "bf16"},
                           Hooks(), capture)
                    .ok());
    return capture.rows();
  };
  EXPECT_TRUE(rows("all").generated().all());
  EXPECT_TRUE(rows("all").prompt().all());
  EXPECT_TRUE(rows("last").prompt().last());
  EXPECT_FALSE(rows("generated").has_prompt());
  const v1::RowSelector some = rows("0,-1,3:5");
  EXPECT_THAT(some.prompt().positions(), ElementsAre(0, -1));
  EXPECT_EQ(some.generated().windows(0).end(), 5);
}

TEST(CaptureBuilderTest, WhatIsWrongIsNamed) {
  const auto error = [](const CaptureOptions& options) {
    v1::CaptureSpec capture;
    return std::string(SetCapture(options, Hooks(), capture).message());
  };
  EXPECT_THAT(error({.hooks = "resid_poost", .dtype = "f32"}),
              HasSubstr("resid_poost"));
  EXPECT_THAT(error({.hooks = "", .dtype = "f32"}), HasSubstr("--hooks"));
  EXPECT_THAT(error({.hooks = "resid_post", .layers = "1-3", .dtype = "f32"}),
              HasSubstr("--layers"));
  EXPECT_THAT(error({.hooks = "embed", .rows = "some", .dtype = "f32"}),
              HasSubstr("--rows"));
  EXPECT_THAT(error({.hooks = "embed", .dtype = "f64"}), HasSubstr("f64"));
}

}  // namespace
}  // namespace headrace::cli
