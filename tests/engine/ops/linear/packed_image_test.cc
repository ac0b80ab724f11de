#include "engine/ops/packed_image.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_team.h"
#include "engine/checksum/crc32c.h"
#include "engine/ops/packed_panels.h"
#include "engine/tensor/dtype.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

constexpr DType kTypes[] = {
    DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0, DType::kQ4_0,
    DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K,
    DType::kQ6_K, DType::kQ4_Z, DType::kQ8_Z, DType::kQ8_C};

const PackedImageKey kKey = {.weights_sha256 = std::string(64, 'a'),
                             .isa = "AVX3_ZEN4"};

// Of what Pack() gives for each type.
constexpr char kLayoutChecksums[] =
    "F32 afe52e15\nF16 0720b0cc\nBF16 0720b0cc\nQ8_0 6a0a5404\n"
    "Q4_0 77e2b025\nQ4_1 b2d20315\nQ5_0 b1092e77\nQ5_1 d567107d\n"
    "Q4_K c3417023\nQ5_K 650717bf\nQ6_K ae4ed2aa\nQ4_Z e1939c52\n"
    "Q8_Z bb527733\nQ8_C ced5477e\n";

// [70, 512] with every byte different from its neighbours: two panels, the
// second one padded, and two blocks of the K types.
PackedRun Pack(ThreadTeam& team, DType dtype) {
  constexpr int64_t kOut = 70;
  constexpr int64_t kIn = 512;
  const DTypeLayout layout = LayoutOf(dtype);
  std::vector<std::byte> bytes(
      static_cast<size_t>(kOut * kIn / layout.elements * layout.bytes));
  uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  const TensorView part = {
      .dtype = dtype, .shape = {kOut, kIn}, .data = bytes.data()};
  PackedMemory memory;
  auto panels = PackPanels(team, memory, std::array{part});
  EXPECT_TRUE(panels.ok()) << panels.status();
  return panels->front();
}

std::vector<PackedRun> PackAll(ThreadTeam& team) {
  std::vector<PackedRun> runs;
  for (const DType dtype : kTypes) runs.push_back(Pack(team, dtype));
  return runs;
}

std::string BytesOf(const PackedRun& run) {
  return {reinterpret_cast<const char*>(run.data.get()),
          static_cast<size_t>(run.bytes())};
}

class PackedImageTest : public ::testing::Test {
 protected:
  std::string Image() {
    const std::vector<PackedRun> runs = PackAll(team_);
    std::string image = PackedImageHead(team_, kKey, runs);
    for (const PackedRun& run : runs) image += BytesOf(run);
    return image;
  }

  absl::StatusOr<std::vector<PackedRun>> Parse(
      const std::string& image, const PackedImageKey& key = kKey) {
    const auto copy = std::make_shared<AlignedBuffer<std::byte>>(image.size());
    if (!image.empty()) std::memcpy(copy->data(), image.data(), image.size());
    return ParsePackedImage(team_, key, {copy, copy->data()}, image.size());
  }

  ThreadTeam team_{2};
};

// A mismatch means that the layout changed: raise kPackedLayoutVersion, or
// servers read images of the earlier layout as if they were of this one.
TEST_F(PackedImageTest, LayoutIsThatOfItsVersion) {
  ASSERT_EQ(kPackedLayoutVersion, 1u);
  std::string sums;
  for (const DType dtype : kTypes) {
    const std::string bytes = BytesOf(Pack(team_, dtype));
    absl::StrAppendFormat(&sums, "%s %08x\n", std::string(LayoutOf(dtype).name),
                          ExtendCrc32c(0, bytes));
  }
  EXPECT_EQ(sums, kLayoutChecksums);
}

TEST_F(PackedImageTest, GivesBackEveryRun) {
  const std::vector<PackedRun> runs = PackAll(team_);
  const auto parsed = Parse(Image());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ((*parsed)[i].dtype, runs[i].dtype);
    EXPECT_EQ((*parsed)[i].in, runs[i].in);
    EXPECT_EQ((*parsed)[i].out, runs[i].out);
    EXPECT_EQ(BytesOf((*parsed)[i]), BytesOf(runs[i]));
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*parsed)[i].data.get()) % 64, 0u);
  }
}

TEST_F(PackedImageTest, RefusesAnotherKey) {
  const std::string image = Image();
  for (const PackedImageKey& other :
       {PackedImageKey{std::string(64, 'b'), kKey.isa},
        PackedImageKey{kKey.weights_sha256, "AVX2"}}) {
    EXPECT_EQ(Parse(image, other).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST_F(PackedImageTest, RefusesEveryCutAndAnythingMore) {
  const std::string image = Image();
  for (size_t size = 0; size < image.size(); size += 1 + size / 16) {
    EXPECT_EQ(Parse(image.substr(0, size)).status().code(),
              absl::StatusCode::kDataLoss)
        << size;
  }
  EXPECT_FALSE(Parse(image.substr(0, image.size() - 1)).ok());
  EXPECT_FALSE(Parse(image + std::string(64, '\0')).ok());
}

TEST_F(PackedImageTest, NoticesEveryByteOfTheHeadAndBitsOfEveryRun) {
  const std::string image = Image();
  const size_t table_end = 128 + std::size(kTypes) * 32;
  for (size_t at = 0; at < image.size();
       at += at < table_end ? 1 : 1 + image.size() / 300) {
    // Between table and runs there are zeros that no one reads.
    if (at >= table_end && at < (table_end + 63) / 64 * 64) continue;
    std::string changed = image;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    EXPECT_FALSE(Parse(changed).ok()) << at;
  }
}

}  // namespace
}  // namespace headrace
