// A file mapped into memory, read-only, for as long as the object lives.
#ifndef HEADRACE_ENGINE_WEIGHTS_MAPPED_FILE_H_
#define HEADRACE_ENGINE_WEIGHTS_MAPPED_FILE_H_

#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headrace {

// Move-only; immutable, thread-safe. The bytes stay at the same address when
// the object moves.
//
// A file that another process shortens while it is mapped kills the reader
// with SIGBUS: no program can prevent that. CheckUnchanged() finds files that
// are still being written, or were replaced, while they were opened.
class MappedFile {
 public:
  // Errors: NOT_FOUND, PERMISSION_DENIED and others as the system says;
  // INVALID_ARGUMENT for what is no regular file.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  // The part of the path after its last slash: how messages call the file.
  const std::string& name() const { return name_; }

  // As it was at Open().
  const struct stat& state() const { return opened_; }

  // Gives pages that were read back to the system, which reads them again when
  // they are looked at: what is kept elsewhere does not take memory twice.
  void ReleasePages() const;

  // ABORTED when size or modification time differ from those at Open().
  absl::Status CheckUnchanged() const;

 private:
  MappedFile() = default;

  std::string name_;
  int fd_ = -1;
  struct stat opened_{};
  std::span<const std::byte> bytes_;
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_WEIGHTS_MAPPED_FILE_H_
