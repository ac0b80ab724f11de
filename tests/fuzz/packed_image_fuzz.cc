// ParsePackedImage() on any bytes: no crash, and what it accepts is inside.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/log/check.h"
#include "engine/base/aligned_buffer.h"
#include "engine/base/thread_team.h"
#include "engine/checksum/crc32c.h"
#include "engine/ops/packed_image.h"
#include "tests/fuzz/fuzz_target.h"

namespace headrace {
namespace {

// Where a header has the check sum of the head and the number of runs, and how
// long header and record are: so that mutants get past the check sum.
constexpr size_t kChecksumOffset = 12;
constexpr size_t kNumRunsOffset = 24;
constexpr size_t kHeaderBytes = 128;
constexpr size_t kRecordBytes = 32;

const PackedImageKey& Key() {
  static const auto& key = *new PackedImageKey{
      .weights_sha256 = std::string(64, '0'), .isa = "AVX2"};
  return key;
}

ThreadTeam& Team() {
  static auto& team = *new ThreadTeam(1);
  return team;
}

std::string Image(const std::vector<DType>& types) {
  std::vector<PackedRun> runs;
  std::string bytes;
  for (const DType dtype : types) {
    PackedRun run = {.dtype = dtype, .in = LayoutOf(dtype).elements, .out = 3};
    const auto data = std::make_shared<AlignedBuffer<std::byte>>(
        static_cast<size_t>(run.bytes()));
    run.data = {data, data->data()};
    bytes.append(static_cast<size_t>(run.bytes()), '\0');
    runs.push_back(run);
  }
  return PackedImageHead(Team(), Key(), runs) + bytes;
}

// With a check sum that is right, when there is room for one.
void Seal(std::byte* bytes, size_t size) {
  if (size < kHeaderBytes) return;
  uint64_t num_runs = 0;
  std::memcpy(&num_runs, bytes + kNumRunsOffset, sizeof(num_runs));
  if (num_runs > (size - kHeaderBytes) / kRecordBytes) return;
  std::memset(bytes + kChecksumOffset, 0, 4);
  const uint32_t sum =
      ExtendCrc32c(0, {reinterpret_cast<const char*>(bytes),
                       kHeaderBytes + num_runs * kRecordBytes});
  std::memcpy(bytes + kChecksumOffset, &sum, sizeof(sum));
}

void Check(const std::shared_ptr<AlignedBuffer<std::byte>>& bytes) {
  const auto runs =
      ParsePackedImage(Team(), Key(), {bytes, bytes->data()}, bytes->size());
  if (!runs.ok()) {
    CHECK(!runs.status().message().empty());
    return;
  }
  for (const PackedRun& run : *runs) {
    CHECK_GE(run.data.get(), bytes->data());
    CHECK_LE(run.data.get() + run.bytes(), bytes->data() + bytes->size());
  }
}

}  // namespace

std::vector<std::string> FuzzSeeds() {
  return {Image({}), Image({DType::kQ8_0}),
          Image({DType::kF32, DType::kBF16, DType::kQ4_1})};
}

}  // namespace headrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::make_shared<headrace::AlignedBuffer<std::byte>>(size);
  if (size > 0) std::memcpy(bytes->data(), data, size);
  headrace::Check(bytes);
  headrace::Seal(bytes->data(), size);
  headrace::Check(bytes);
  return 0;
}
