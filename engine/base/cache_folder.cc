#include "engine/base/cache_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

namespace headrace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUnfinished = ".unfinished";
// No writer takes longer: an older unfinished file has none.
constexpr std::chrono::hours kLongestWrite{1};

absl::Status Failed(const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
}

// Files may come and go meanwhile.
void ForEachFile(
    const std::string& folder,
    absl::FunctionRef<void(const fs::path&, fs::file_time_type)> function) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; it != end && !error;
       it.increment(error)) {
    std::error_code gone;
    const fs::file_time_type time = fs::last_write_time(it->path(), gone);
    if (!gone && it->is_regular_file(gone)) function(it->path(), time);
  }
}

void Remove(const fs::path& path) {
  std::error_code gone;
  fs::remove(path, gone);
}

bool EndsWith(const fs::path& path, std::string_view suffix) {
  return path.filename().string().ends_with(suffix);
}

// What interrupted writers left behind.
void RemoveAbandoned(const std::string& folder) {
  const auto now = fs::file_time_type::clock::now();
  ForEachFile(folder, [&](const fs::path& path, fs::file_time_type time) {
    if (now - time > kLongestWrite && EndsWith(path, kUnfinished)) Remove(path);
  });
}

// A file that is removed unless it gets its name.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::string& final_path)
      : final_path_(final_path),
        path_(absl::StrCat(final_path, ".XXXXXX", std::string(kUnfinished))),
        fd_(mkostemps(path_.data(), static_cast<int>(kUnfinished.size()),
                      O_CLOEXEC)) {}
  ~UnfinishedFile() {
    if (fd_ < 0) return;
    close(fd_);
    if (!path_.empty()) unlink(path_.c_str());
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  bool is_open() const { return fd_ >= 0; }

  bool Append(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return true;
  }

  // To be read by servers of other users too.
  bool Finish() {
    if (fchmod(fd_, 0644) != 0 || fsync(fd_) != 0 ||
        rename(path_.c_str(), final_path_.c_str()) != 0) {
      return false;
    }
    path_.clear();
    return true;
  }

 private:
  const std::string final_path_;
  std::string path_;
  const int fd_;
};

}  // namespace

std::string CacheFolder::PathOf(std::string_view name) const {
  return (fs::path(path_) / name).string();
}

absl::Status CacheFolder::Write(
    std::string_view name,
    std::span<const std::span<const std::byte>> pieces) const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat("cannot make the folder ", path_));
  }
  RemoveAbandoned(path_);  // before: they may be what fills the disk
  const std::string path = PathOf(name);
  UnfinishedFile file(path);
  if (!file.is_open()) return Failed(path);
  for (const std::span<const std::byte> piece : pieces) {
    if (!file.Append(piece)) return Failed(path);
  }
  return file.Finish() ? absl::OkStatus() : Failed(path);
}

void CacheFolder::Touch(std::string_view name) const {
  // A folder that is read-only is pruned by others, or not at all.
  utimensat(AT_FDCWD, PathOf(name).c_str(), nullptr, 0);
}

void CacheFolder::Prune(std::string_view suffix, size_t most) const {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  ForEachFile(path_, [&](const fs::path& path, fs::file_time_type time) {
    if (EndsWith(path, suffix)) files.emplace_back(time, path);
  });
  std::sort(files.rbegin(), files.rend());
  for (size_t i = most; i < files.size(); ++i) Remove(files[i].second);
}

}  // namespace headrace
