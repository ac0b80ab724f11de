#include "engine/ops/packed_image.h"

#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/log/check.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/checksum/crc32c.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/quantized_format.h"

namespace headrace {
namespace {

constexpr std::array<char, 8> kMagic = {'H', 'R', 'P', 'A', 'C', 'K', 'E', 'D'};
constexpr size_t kAlignment = 64;
// Of a matrix, far beyond any: products of sizes below stay within an int64_t.
constexpr int64_t kMostInputs = int64_t{1} << 24;
constexpr int64_t kMostOutputs = int64_t{1} << 31;

constexpr DType kTypes[] = {
    DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0, DType::kQ4_0,
    DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K,
    DType::kQ6_K, DType::kQ4_Z, DType::kQ8_Z, DType::kQ8_C};

// Little-endian, as every machine that this is compiled for.
struct Header {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t head_checksum;  // of header and table, this being 0
  uint64_t file_bytes;
  uint64_t num_runs;
  std::array<char, 64> weights_sha256;
  std::array<char, 32> isa;
};
static_assert(sizeof(Header) == 128);

// One of the table that follows the header.
struct RunRecord {
  std::array<char, 8> dtype;  // its name, padded with zeros
  int64_t in;
  int64_t out;
  uint32_t checksum;  // of the run's bytes
  uint32_t reserved;
};
static_assert(sizeof(RunRecord) == 32);

std::string_view AsText(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

// Zeros after the text.
template <size_t kSize>
std::array<char, kSize> Padded(std::string_view text) {
  std::array<char, kSize> field = {};
  CHECK_LE(text.size(), kSize);
  std::memcpy(field.data(), text.data(), text.size());
  return field;
}

constexpr size_t HeadBytes(size_t num_runs) {
  const size_t bytes = sizeof(Header) + num_runs * sizeof(RunRecord);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(std::string(what));
}

// One for each run, computed by all threads: an image is read at the speed of
// memory.
std::vector<uint32_t> Checksums(ThreadTeam& team,
                                std::span<const PackedRun> runs) {
  std::vector<uint32_t> sums(runs.size());
  team.ParallelFor(
      static_cast<int64_t>(runs.size()), [&](int64_t i, int /*thread_index*/) {
        const PackedRun& run = runs[static_cast<size_t>(i)];
        sums[static_cast<size_t>(i)] = ExtendCrc32c(
            0, AsText(run.data.get(), static_cast<size_t>(run.bytes())));
      });
  return sums;
}

std::optional<DType> TypeOf(const RunRecord& record) {
  for (const DType dtype : kTypes) {
    if (Padded<8>(LayoutOf(dtype).name) == record.dtype) return dtype;
  }
  return std::nullopt;
}

absl::StatusOr<PackedRun> ParseRecord(const RunRecord& record) {
  const std::optional<DType> dtype = TypeOf(record);
  if (!dtype.has_value()) return Damaged("a run of an unknown type");
  if (record.in < 1 || record.in > kMostInputs || record.out < 1 ||
      record.out > kMostOutputs || record.in % LayoutOf(*dtype).elements != 0) {
    return Damaged(absl::StrCat("a run of ", record.out, " x ", record.in));
  }
  return PackedRun{.dtype = *dtype, .in = record.in, .out = record.out};
}

absl::StatusOr<Header> ParseHeader(const PackedImageKey& key,
                                   const std::byte* bytes, size_t size) {
  Header header;
  if (size < sizeof(header)) return Damaged("shorter than its header");
  std::memcpy(&header, bytes, sizeof(header));
  if (header.magic != kMagic) return Damaged("no packed weights");
  if (header.version != kPackedLayoutVersion) {
    return Damaged(absl::StrCat("version ", header.version, ", wanted ",
                                kPackedLayoutVersion));
  }
  if (header.weights_sha256 != Padded<64>(key.weights_sha256) ||
      header.isa != Padded<32>(key.isa)) {
    return Damaged("of other weights or another instruction set");
  }
  if (header.file_bytes != size) {
    return Damaged(
        absl::StrCat(size, " bytes, wanted ", header.file_bytes, " bytes"));
  }
  if (header.num_runs > (size - sizeof(header)) / sizeof(RunRecord) ||
      HeadBytes(header.num_runs) > size) {
    return Damaged("a table that does not fit");
  }
  return header;
}

uint32_t HeadChecksum(Header header, const std::byte* table) {
  header.head_checksum = 0;
  return ExtendCrc32c(ExtendCrc32c(0, AsText(&header, sizeof(header))),
                      AsText(table, header.num_runs * sizeof(RunRecord)));
}

}  // namespace

std::string PackedImageHead(ThreadTeam& team, const PackedImageKey& key,
                            std::span<const PackedRun> runs) {
  std::string head(HeadBytes(runs.size()), '\0');
  Header header = {.magic = kMagic,
                   .version = kPackedLayoutVersion,
                   .head_checksum = 0,
                   .file_bytes = head.size(),
                   .num_runs = runs.size(),
                   .weights_sha256 = Padded<64>(key.weights_sha256),
                   .isa = Padded<32>(key.isa)};
  const std::vector<uint32_t> checksums = Checksums(team, runs);
  char* table = head.data() + sizeof(header);
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunRecord record = {.dtype = Padded<8>(LayoutOf(runs[i].dtype).name),
                              .in = runs[i].in,
                              .out = runs[i].out,
                              .checksum = checksums[i],
                              .reserved = 0};
    std::memcpy(table + i * sizeof(record), &record, sizeof(record));
    // So that every run is aligned.
    CHECK_EQ(runs[i].bytes() % static_cast<int64_t>(kAlignment), 0);
    header.file_bytes += static_cast<uint64_t>(runs[i].bytes());
  }
  header.head_checksum =
      HeadChecksum(header, reinterpret_cast<const std::byte*>(table));
  std::memcpy(head.data(), &header, sizeof(header));
  return head;
}

absl::StatusOr<std::vector<PackedRun>> ParsePackedImage(
    ThreadTeam& team, const PackedImageKey& key,
    const std::shared_ptr<const std::byte>& bytes, size_t size) {
  ASSIGN_OR_RETURN(const Header header, ParseHeader(key, bytes.get(), size));
  const std::byte* table = bytes.get() + sizeof(header);
  if (HeadChecksum(header, table) != header.head_checksum) {
    return Damaged("the check sum of the head is wrong");
  }
  std::vector<PackedRun> runs;
  std::vector<uint32_t> wanted;
  size_t offset = HeadBytes(header.num_runs);
  for (size_t i = 0; i < header.num_runs; ++i) {
    RunRecord record;
    std::memcpy(&record, table + i * sizeof(record), sizeof(record));
    ASSIGN_OR_RETURN(PackedRun run, ParseRecord(record));
    const auto run_bytes = static_cast<size_t>(run.bytes());
    if (run_bytes > size - offset) return Damaged("a run that does not fit");
    run.data = {bytes, bytes.get() + offset};
    offset += run_bytes;
    runs.push_back(std::move(run));
    wanted.push_back(record.checksum);
  }
  if (offset != size) return Damaged("bytes after the last run");
  if (Checksums(team, runs) != wanted) {
    return Damaged("the check sum of a run is wrong");
  }
  return runs;
}

}  // namespace headrace
