#include "client/cli/npz_writer.h"

#include <zlib.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace headrace::cli {
namespace {

constexpr uint64_t kZipLimit = 0xFFFFFFFFu;
constexpr size_t kNpyAlignment = 64;

// Appends `value` as `bytes` little-endian bytes.
void Put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
  }
}

std::string NpyHeader(std::string_view descr,
                      const std::vector<int64_t>& shape) {
  std::string dict = absl::StrCat("{'descr': '", std::string(descr),
                                  "', 'fortran_order': False, 'shape': (");
  for (const int64_t dim : shape) absl::StrAppend(&dict, dim, ",");
  dict += "), }";
  std::string header("\x93NUMPY\x01\x00", 8);
  // Magic, length and text together are a multiple of 64, newline last.
  const size_t unpadded = header.size() + 2 + dict.size() + 1;
  dict.append((kNpyAlignment - unpadded % kNpyAlignment) % kNpyAlignment, ' ');
  dict.push_back('\n');
  Put(header, dict.size(), 2);
  return header + dict;
}

uint32_t Crc(uint32_t crc, std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The fields that a local header and a directory entry share.
void PutCommon(std::string& out, uint32_t crc, uint32_t size,
               size_t name_size) {
  Put(out, 20, 2);            // version needed: 2.0
  Put(out, 0, 2);             // flags
  Put(out, 0, 2);             // stored
  Put(out, 0, 2);             // time
  Put(out, (1 << 5) | 1, 2);  // date: 1980-01-01, the same on every run
  Put(out, crc, 4);
  Put(out, size, 4);
  Put(out, size, 4);
  Put(out, name_size, 2);
  Put(out, 0, 2);  // extra field
}

}  // namespace

NpzWriter::NpzWriter(std::string path)
    : path_(std::move(path)), file_(path_, std::ios::binary) {}

absl::Status NpzWriter::Write(std::string_view bytes) {
  file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  offset_ += bytes.size();
  if (file_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path_));
}

absl::Status NpzWriter::Add(const std::string& name, std::string_view descr,
                            const std::vector<int64_t>& shape,
                            std::string_view data) {
  const std::string header = NpyHeader(descr, shape);
  const uint64_t size = header.size() + data.size();
  if (offset_ + size > kZipLimit) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, " would pass 4 GiB with ", name,
                     "; choose fewer hooks, layers or rows, or --dtype bf16"));
  }
  Entry entry{.name = name + ".npy",
              .crc = Crc(Crc(0, header), data),
              .size = static_cast<uint32_t>(size),
              .offset = static_cast<uint32_t>(offset_)};
  std::string local;
  Put(local, 0x04034b50, 4);
  PutCommon(local, entry.crc, entry.size, entry.name.size());
  local += entry.name;
  entries_.push_back(std::move(entry));
  for (const std::string_view part :
       {std::string_view(local), std::string_view(header), data}) {
    if (absl::Status status = Write(part); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status NpzWriter::Finish() {
  const uint64_t start = offset_;
  std::string directory;
  for (const Entry& entry : entries_) {
    Put(directory, 0x02014b50, 4);
    Put(directory, 20, 2);  // made by: 2.0, MS-DOS
    PutCommon(directory, entry.crc, entry.size, entry.name.size());
    Put(directory, 0, 2);  // comment
    Put(directory, 0, 2);  // disk
    Put(directory, 0, 2);  // internal attributes
    Put(directory, 0, 4);  // external attributes
    Put(directory, entry.offset, 4);
    directory += entry.name;
  }
  const size_t size = directory.size();
  Put(directory, 0x06054b50, 4);
  Put(directory, 0, 4);  // disks
  Put(directory, entries_.size(), 2);
  Put(directory, entries_.size(), 2);
  Put(directory, size, 4);
  Put(directory, start, 4);
  Put(directory, 0, 2);  // comment
  if (absl::Status status = Write(directory); !status.ok()) return status;
  file_.close();
  if (file_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path_));
}

}  // namespace headrace::cli
