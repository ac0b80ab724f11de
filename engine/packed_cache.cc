#include "engine/packed_cache.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/log/log.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/weights/mapped_file.h"

namespace headrace {
namespace {

constexpr std::string_view kSuffix = ".packed";
constexpr size_t kMostFiles = 8;

std::string NameOf(const PackedImageKey& key) {
  return absl::StrCat(key.weights_sha256, "-", key.isa, "-v",
                      kPackedLayoutVersion, std::string(kSuffix));
}

}  // namespace

std::vector<PackedRun> PackedCache::Load(ThreadTeam& team,
                                         const PackedImageKey& key) const {
  const std::string path = folder_.PathOf(NameOf(key));
  absl::StatusOr<MappedFile> opened = MappedFile::Open(path);
  if (!opened.ok()) {
    if (!absl::IsNotFound(opened.status())) {
      LOG(WARNING) << opened.status().message();
    }
    return {};
  }
  folder_.Touch(NameOf(key));
  const auto file = std::make_shared<const MappedFile>(*std::move(opened));
  absl::StatusOr<std::vector<PackedRun>> runs = ParsePackedImage(
      team, key, {file, file->bytes().data()}, file->bytes().size());
  if (!runs.ok()) {
    LOG(WARNING) << path << " is packed again: " << runs.status().message();
    return {};
  }
  LOG(INFO) << "packed weights: " << path;
  return *std::move(runs);
}

void PackedCache::Save(ThreadTeam& team, const PackedImageKey& key,
                       std::span<const PackedRun> runs) const {
  const absl::Time start = absl::Now();
  const std::string head = PackedImageHead(team, key, runs);
  std::vector<std::span<const std::byte>> pieces = {
      std::as_bytes(std::span(head))};
  for (const PackedRun& run : runs) {
    pieces.emplace_back(run.data.get(), static_cast<size_t>(run.bytes()));
  }
  const absl::Status status = folder_.Write(NameOf(key), pieces);
  if (!status.ok()) {
    LOG(WARNING) << "packed weights are not kept: " << status.message();
    return;
  }
  LOG(INFO) << "packed weights are kept in " << folder_.PathOf(NameOf(key))
            << "; writing took " << absl::Now() - start;
  folder_.Prune(kSuffix, kMostFiles);
}

}  // namespace headrace
