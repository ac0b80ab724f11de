#include "server/batching/activation_ring.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/crc/crc32c.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/wire_rows.h"

namespace headrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr HookPoint kHook = HookPoint::kResidPost;
constexpr int64_t kWidth = 4;

CaptureLayout Layout(int64_t layers, CaptureDelivery delivery,
                     int64_t max_ring_bytes) {
  CapturePlan plan;
  plan.hooks.push_back({.hook = kHook});
  for (int32_t layer = 0; layer < layers; ++layer) {
    plan.hooks[0].layers.push_back(layer);
  }
  const std::vector<HookPointState> hooks = {
      {.hook = kHook, .width = kWidth, .capturable = true}};
  return MakeCaptureLayout(plan, hooks, {}, delivery, max_ring_bytes);
}

// Adds a row whose values are its position.
void AddRow(ActivationRing& ring, int64_t position,
            Phase phase = Phase::kPrompt, int32_t layer = 0,
            int32_t choice = 0) {
  const std::vector<float> values(kWidth, static_cast<float>(position));
  ring.Add(choice, {.hook = kHook,
                    .layer = layer,
                    .phase = phase,
                    .position = position,
                    .token = static_cast<int32_t>(position + 1000),
                    .values = values});
}

TEST(CaptureLayoutTest, CountsRowsAndBytesPerPosition) {
  const CaptureLayout layout =
      Layout(3, {.dtype = WireDtype::kBF16}, /*max_ring_bytes=*/1 << 20);

  EXPECT_EQ(layout.rows_per_position, 3);
  EXPECT_EQ(layout.bytes_per_position, 3 * kWidth * 2);
}

TEST(CaptureLayoutTest, ChunksKeepToTheirLimit) {
  const CaptureLayout layout = Layout(1, {.chunk_bytes = 100}, 1 << 20);

  EXPECT_EQ(layout.hooks[0].rows_per_chunk, 6);  // 16 bytes a row
}

TEST(CaptureLayoutTest, AChunkHoldsOneRowHoweverWide) {
  const CaptureLayout layout = Layout(1, {.chunk_bytes = 1}, 1);

  EXPECT_EQ(layout.hooks[0].rows_per_chunk, 1);
  EXPECT_GE(layout.ring_bytes, 2 * layout.ring_cost_per_position);
}

TEST(CaptureLayoutTest, UnfinishedChunksFillAtMostHalfOfTheRing) {
  for (const int64_t layers : {1, 7, 100}) {
    for (const int64_t ring_bytes : {1 << 10, 1 << 14, 1 << 20}) {
      const CaptureLayout layout = Layout(layers, {}, ring_bytes);
      ActivationRing ring(layout);
      for (int64_t row = 1; row < layout.hooks[0].rows_per_chunk; ++row) {
        for (int32_t layer = 0; layer < layers; ++layer) {
          AddRow(ring, row, Phase::kPrompt, layer);
        }
      }

      EXPECT_FALSE(ring.HasChunk());
      EXPECT_LE(ring.used_bytes(), layout.ring_bytes / 2);
    }
  }
}

TEST(ActivationRingTest, PromptRowsWaitForAFullChunk) {
  ActivationRing ring(Layout(1, {.chunk_bytes = 48}, 1 << 20));
  AddRow(ring, 0);
  AddRow(ring, 1);
  EXPECT_FALSE(ring.HasChunk());
  AddRow(ring, 2);
  ASSERT_TRUE(ring.HasChunk());

  const std::optional<ActivationChunk> chunk = ring.TakeChunk();

  ASSERT_TRUE(chunk.has_value());
  EXPECT_THAT(chunk->positions, ElementsAre(0, 1, 2));
  EXPECT_THAT(chunk->tokens, ElementsAre(1000, 1001, 1002));
  EXPECT_EQ(chunk->width, kWidth);
  EXPECT_EQ(chunk->data.size(), 3 * kWidth * sizeof(float));
  float value = 0;
  std::memcpy(&value, chunk->data.data() + 2 * kWidth * sizeof(float), 4);
  EXPECT_EQ(value, 2.0f);
  EXPECT_EQ(absl::crc32c_t{chunk->crc32c}, absl::ComputeCrc32c(chunk->data));
  EXPECT_EQ(ring.used_bytes(), 0);
}

TEST(ActivationRingTest, TheEndOfThePromptReleasesItsRows) {
  ActivationRing ring(Layout(1, {}, 1 << 20));
  AddRow(ring, 0);
  EXPECT_FALSE(ring.TakeChunk().has_value());

  ring.FlushPrompt();

  EXPECT_THAT(ring.TakeChunk()->positions, ElementsAre(0));
}

TEST(ActivationRingTest, ADecodeRowCanBeTakenAtOnce) {
  ActivationRing ring(Layout(1, {}, 1 << 20));
  AddRow(ring, 7, Phase::kGenerated);

  const std::optional<ActivationChunk> chunk = ring.TakeChunk();

  ASSERT_TRUE(chunk.has_value());
  EXPECT_EQ(chunk->phase, Phase::kGenerated);
  EXPECT_THAT(chunk->positions, ElementsAre(7));
}

TEST(ActivationRingTest, DecodeRowsGatherWhileTheReaderIsBusy) {
  ActivationRing ring(Layout(1, {}, 1 << 20));
  for (int64_t p = 7; p < 10; ++p) AddRow(ring, p, Phase::kGenerated);

  EXPECT_THAT(ring.TakeChunk()->positions, ElementsAre(7, 8, 9));
}

TEST(ActivationRingTest, LayersChoicesAndPhasesDoNotMix) {
  ActivationRing ring(Layout(2, {}, 1 << 20));
  AddRow(ring, 0, Phase::kPrompt, 0);
  AddRow(ring, 0, Phase::kPrompt, 1);
  AddRow(ring, 1, Phase::kGenerated, 0, 0);
  AddRow(ring, 1, Phase::kGenerated, 0, 1);
  ring.FlushPrompt();

  std::vector<int64_t> sequence_numbers;
  while (std::optional<ActivationChunk> chunk = ring.TakeChunk()) {
    EXPECT_THAT(chunk->positions, SizeIs(1));
    sequence_numbers.push_back(chunk->sequence_number);
  }
  EXPECT_THAT(sequence_numbers, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(ring.rows_taken()[0].rows, 4);
}

TEST(ActivationRingTest, NeighbouringGapsAreOne) {
  ActivationRing ring(Layout(1, {}, 1 << 20));
  const auto drop = [&](int64_t position, int32_t choice) {
    ring.AddGap({.choice = choice,
                 .first_position = position,
                 .last_position = position});
  };
  for (int layer = 0; layer < 2; ++layer) {  // a step's rows, layer by layer
    drop(3, 0);
    drop(4, 0);
  }
  drop(5, 1);
  AddRow(ring, 5);
  drop(6, 0);
  drop(6, 1);

  const std::vector<RowGap> gaps = ring.TakeGaps();

  ASSERT_THAT(gaps, SizeIs(3));
  EXPECT_EQ(gaps[0].first_position, 3);
  EXPECT_EQ(gaps[0].last_position, 4);
  EXPECT_EQ(gaps[1].choice, 1);
  EXPECT_EQ(gaps[1].first_position, 5);
  EXPECT_EQ(gaps[1].last_position, 6);
  EXPECT_EQ(gaps[2].choice, 0);
  EXPECT_EQ(gaps[2].first_position, 6);
}

// Memory does not grow with gaps that alternate with rows for ever: each is a
// position of one choice, whatever the hooks and layers.
TEST(ActivationRingTest, GapsOfAllLayersAreOneEach) {
  ActivationRing ring(Layout(30, {}, 1 << 20));
  for (int64_t p = 0; p < 1000; p += 2) {
    for (int32_t layer = 0; layer < 30; ++layer) {
      ring.AddGap({.first_position = p, .last_position = p});
    }
    for (int32_t layer = 0; layer < 30; ++layer) {
      AddRow(ring, p + 1, Phase::kGenerated, layer);
    }
    while (ring.TakeChunk().has_value()) {
    }
  }

  EXPECT_THAT(ring.TakeGaps(), SizeIs(500));
}

TEST(ActivationRingTest, RowsByKeyTravelWithTheirWidthAndKeys) {
  CapturePlan plan;
  plan.hooks.push_back({.hook = HookPoint::kAttnProbs,
                        .layers = {0},
                        .heads = {{0, 0}, {0, 3}},
                        .key_width = 128});
  const CaptureLayout layout =
      MakeCaptureLayout(plan, {}, {}, {.dtype = WireDtype::kInt8}, 1 << 20);
  EXPECT_EQ(layout.rows_per_position, 2);
  EXPECT_EQ(layout.hooks[0].dtype, WireDtype::kF32);
  ActivationRing ring(layout);
  const auto add = [&](int64_t position, int64_t width, int32_t head) {
    const std::vector<float> values(width, 0.5f);
    ring.Add(0, {.hook = HookPoint::kAttnProbs,
                 .layer = 0,
                 .head = head,
                 .phase = Phase::kPrompt,
                 .position = position,
                 .values = values,
                 .key_start = 0,
                 .key_count = position + 1});
  };
  for (const int64_t position : {62, 63, 64}) {
    add(position, position < 64 ? 64 : 128, 0);
    add(position, position < 64 ? 64 : 128, 3);
  }
  // The narrow rows are whole chunks now: unfinished ones do not pile up.
  ASSERT_TRUE(ring.HasChunk());
  std::optional<ActivationChunk> chunk = ring.TakeChunk();
  EXPECT_EQ(chunk->head, 0);
  EXPECT_EQ(chunk->width, 64);
  EXPECT_EQ(chunk->data.size(), 2 * 64 * sizeof(float));
  EXPECT_THAT(chunk->key_counts, ElementsAre(63, 64));
  EXPECT_THAT(chunk->key_starts, ElementsAre(0, 0));
  EXPECT_EQ(ring.TakeChunk()->head, 3);
  EXPECT_FALSE(ring.HasChunk());
  ring.FlushPrompt();
  EXPECT_EQ(ring.TakeChunk()->width, 128);
  EXPECT_EQ(ring.TakeChunk()->width, 128);
  EXPECT_EQ(ring.used_bytes(), 0);
}

TEST(ActivationRingTest, ReceivedRowsAreNotGivenOutAgain) {
  ActivationRing ring(Layout(2, {}, 1 << 20),
                      {{{.choice = 0, .hook = kHook, .layer = 0}, 3},
                       {{.choice = 0, .hook = kHook, .layer = 1}, 1}});
  for (int64_t p = 0; p < 4; ++p) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      AddRow(ring, p, p < 2 ? Phase::kPrompt : Phase::kGenerated, layer);
    }
  }
  ring.FlushPrompt();

  std::vector<std::vector<int64_t>> positions(2);
  while (const std::optional<ActivationChunk> chunk = ring.TakeChunk()) {
    std::vector<int64_t>& all = positions[static_cast<size_t>(chunk->layer)];
    all.insert(all.end(), chunk->positions.begin(), chunk->positions.end());
  }
  EXPECT_THAT(positions[0], ElementsAre(3));
  EXPECT_THAT(positions[1], ElementsAre(1, 2, 3));
  EXPECT_EQ(ring.rows_taken()[0].rows, 4);
}

TEST(ActivationRingTest, ClearGivesEveryByteBack) {
  ActivationRing ring(Layout(1, {.chunk_bytes = 16}, 1 << 20));
  AddRow(ring, 0);
  AddRow(ring, 1, Phase::kGenerated);

  ring.Clear();

  EXPECT_EQ(ring.used_bytes(), 0);
  EXPECT_FALSE(ring.HasChunk());
}

}  // namespace
}  // namespace headrace
