// A numpy .npz archive: stored (not compressed) .npy arrays in a zip file.
// Format: numpy 2.x, numpy.lib.format version 1.0; PKWARE APPNOTE 6.3.
#ifndef HEADRACE_CLIENT_CLI_NPZ_WRITER_H_
#define HEADRACE_CLIENT_CLI_NPZ_WRITER_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace headrace::cli {

// Thread-compatible. Arrays are written as they are added; Finish() makes the
// file readable.
class NpzWriter {
 public:
  explicit NpzWriter(std::string path);

  // `descr`: numpy's, "<f4", "<i8", …; `data`: its bytes, row-major.
  // Errors: RESOURCE_EXHAUSTED past zip's 4 GiB; UNAVAILABLE when the file
  // cannot be written.
  absl::Status Add(const std::string& name, std::string_view descr,
                   const std::vector<int64_t>& shape, std::string_view data);
  absl::Status Finish();

 private:
  struct Entry {
    std::string name;
    uint32_t crc = 0;
    uint32_t size = 0;
    uint32_t offset = 0;
  };
  absl::Status Write(std::string_view bytes);

  std::string path_;
  std::ofstream file_;
  uint64_t offset_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace headrace::cli

#endif  // HEADRACE_CLIENT_CLI_NPZ_WRITER_H_
