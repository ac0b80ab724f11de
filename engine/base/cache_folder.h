// A folder of files that can be made again at any time. Several processes may
// use it at once.
#ifndef HEADRACE_ENGINE_BASE_CACHE_FOLDER_H_
#define HEADRACE_ENGINE_BASE_CACHE_FOLDER_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace headrace {

// Immutable, thread-safe.
class CacheFolder {
 public:
  explicit CacheFolder(std::string path) : path_(std::move(path)) {}

  std::string PathOf(std::string_view name) const;

  // Makes or replaces the file, all of it or nothing: whoever reads it sees the
  // old bytes or the new ones, also after a crash. Makes the folder, and
  // removes what interrupted writers left in it. Errors: what the system says,
  // naming the file.
  absl::Status Write(std::string_view name,
                     std::span<const std::span<const std::byte>> pieces) const;

  // Says that the file is in use, for Prune().
  void Touch(std::string_view name) const;

  // Of the files whose names end in `suffix`, keeps the `most` that were
  // written or touched last.
  void Prune(std::string_view suffix, size_t most) const;

 private:
  std::string path_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_CACHE_FOLDER_H_
