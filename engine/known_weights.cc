#include "engine/known_weights.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/checksum/crc32c.h"
#include "engine/weights/mapped_file.h"

namespace headrace {
namespace {

constexpr std::string_view kSuffix = ".weights";
constexpr size_t kMostFiles = 64;
constexpr int64_t kSampleBytes = 4096;  // of a tensor, from its middle
constexpr absl::Duration kClockTick = absl::Seconds(2);
constexpr size_t kHashSize = 64;

// Of a matrix whose rows are made: from its middle row.
uint32_t SampleOfMade(const TensorView& view) {
  std::vector<std::byte> row(static_cast<size_t>(view.row_bytes()));
  view.maker->MakeRows(view.dim(0) / 2, 1, row.data());
  return ExtendCrc32c(0,
                      {reinterpret_cast<const char*>(row.data()), row.size()});
}

uint32_t SampleOf(const StoredTensor& tensor) {
  if (tensor.view.maker != nullptr) return SampleOfMade(tensor.view);
  const int64_t size = std::min(kSampleBytes, tensor.bytes);
  const int64_t begin = (tensor.bytes - size) / 2;
  return ExtendCrc32c(0,
                      {reinterpret_cast<const char*>(tensor.view.data) + begin,
                       static_cast<size_t>(size)});
}

// What tells these files from others.
std::string Fingerprint(const WeightSource& source) {
  std::string text = absl::StrCat(source.format_name(), "\n");
  for (const FileState& file : source.file_states()) {
    absl::StrAppendFormat(&text, "%d %d %d %d\n", file.size, file.inode,
                          absl::ToUnixNanos(file.modified),
                          absl::ToUnixNanos(file.changed));
  }
  for (const StoredTensor& tensor : source.tensors()) {
    absl::StrAppendFormat(&text, "%s %d %08x\n", tensor.name, tensor.bytes,
                          SampleOf(tensor));
  }
  return text;
}

bool IsSettled(const WeightSource& source, absl::Time now) {
  const std::vector<FileState> files = source.file_states();
  return std::all_of(files.begin(), files.end(), [&](const FileState& file) {
    return std::max(file.modified, file.changed) + kClockTick < now;
  });
}

// The file: a fingerprint, the hash, and a check sum of both.
std::string Sealed(const std::string& fingerprint, std::string_view hash) {
  const std::string text = absl::StrCat(fingerprint, std::string(hash), "\n");
  return absl::StrFormat("%s%08x\n", text, ExtendCrc32c(0, text));
}

std::optional<std::string> Recall(const std::string& path,
                                  const std::string& fingerprint) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok() || file->text().size() < fingerprint.size() + kHashSize) {
    return std::nullopt;
  }
  std::string hash(file->text().substr(fingerprint.size(), kHashSize));
  if (file->text() != Sealed(fingerprint, hash)) return std::nullopt;
  return hash;
}

}  // namespace

std::string HashKnownWeights(const WeightSource& source,
                             const CacheFolder& folder, absl::Time now) {
  const std::string fingerprint = Fingerprint(source);
  const std::string name = absl::StrFormat(
      "%08x%s", ExtendCrc32c(0, fingerprint), std::string(kSuffix));
  if (std::optional<std::string> hash =
          Recall(folder.PathOf(name), fingerprint)) {
    folder.Touch(name);
    return *std::move(hash);
  }
  const std::string hash = HashWeights(source);
  if (!IsSettled(source, now)) return hash;
  const std::string text = Sealed(fingerprint, hash);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  const absl::Status status = folder.Write(name, {&bytes, 1});
  if (!status.ok()) LOG(WARNING) << status.message();
  folder.Prune(kSuffix, kMostFiles);
  return hash;
}

}  // namespace headrace
