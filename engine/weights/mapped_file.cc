#include "engine/weights/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/weights/file_path.h"

namespace headrace {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  MappedFile file;
  file.name_ = BaseName(path);
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  file.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0 || fstat(file.fd_, &file.opened_) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  if (!S_ISREG(file.opened_.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file"));
  }
  const size_t size = static_cast<size_t>(file.opened_.st_size);
  if (size == 0) return file;
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd_, 0);
  if (address == MAP_FAILED) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot map the ", size, " bytes of ", path));
  }
  file.bytes_ = {static_cast<const std::byte*>(address), size};
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept {
  *this = std::move(other);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(fd_, other.fd_);
  std::swap(opened_, other.opened_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
  if (fd_ >= 0) close(fd_);
}

void MappedFile::ReleasePages() const {
  if (bytes_.empty()) return;
  // A hint; failure is harmless.
  madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

absl::Status MappedFile::CheckUnchanged() const {
  struct stat now{};
  if (fstat(fd_, &now) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", name_));
  }
  if (now.st_size != opened_.st_size ||
      now.st_mtim.tv_sec != opened_.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != opened_.st_mtim.tv_nsec) {
    return absl::AbortedError(
        absl::StrFormat("%s changed while it was read: %d bytes before, %d now",
                        name_, opened_.st_size, now.st_size));
  }
  return absl::OkStatus();
}

}  // namespace headrace
