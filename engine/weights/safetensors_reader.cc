#include "engine/weights/safetensors_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/weights/byte_cursor.h"
#include "engine/weights/checked_math.h"
#include "engine/weights/file_error.h"
#include "engine/weights/safetensors_header.h"

namespace headrace {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // safetensors README.md

struct StoredDtype {
  std::string_view name;
  uint64_t bits;
  std::optional<DType> dtype;
};

// A dtype is supported from the moment it stands in the last column.
constexpr StoredDtype kStoredDtypes[] = {
    {"F32", 32, DType::kF32},         {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},       {"BOOL", 8, std::nullopt},
    {"F4", 4, std::nullopt},          {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},     {"U8", 8, std::nullopt},
    {"I8", 8, std::nullopt},          {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},     {"F8_E8M0", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt}, {"F8_E5M2FNUZ", 8, std::nullopt},
    {"I16", 16, std::nullopt},        {"U16", 16, std::nullopt},
    {"I32", 32, std::nullopt},        {"U32", 32, std::nullopt},
    {"I64", 64, std::nullopt},        {"U64", 64, std::nullopt},
    {"F64", 64, std::nullopt},        {"C64", 64, std::nullopt},
};

const StoredDtype* FindStoredDtype(std::string_view name) {
  for (const StoredDtype& stored : kStoredDtypes) {
    if (stored.name == name) return &stored;
  }
  return nullptr;
}

// nullopt when the shape's size does not fit, or is no whole number of bytes.
std::optional<uint64_t> BytesOf(const StoredDtype& stored,
                                const std::vector<uint64_t>& shape) {
  std::optional<uint64_t> bits = stored.bits;
  for (const uint64_t dim : shape) {
    if (dim > std::numeric_limits<int64_t>::max()) return std::nullopt;
    if (bits.has_value()) bits = CheckedMul(*bits, dim);
  }
  if (!bits.has_value() || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

class SafetensorsParser {
 public:
  SafetensorsParser(std::span<const std::byte> file, std::string_view file_name)
      : file_(file), file_name_(file_name) {}

  absl::StatusOr<std::vector<SafetensorsInfo>> Parse() {
    ASSIGN_OR_RETURN(const std::string_view header, TakeHeader());
    ASSIGN_OR_RETURN(std::vector<SafetensorsHeaderEntry> entries,
                     ParseSafetensorsHeader(header, file_name_));
    RETURN_IF_ERROR(CheckNamesAreUnique(entries));
    // Empty tensors before what begins at the same place.
    std::sort(
        entries.begin(), entries.end(),
        [](const SafetensorsHeaderEntry& a, const SafetensorsHeaderEntry& b) {
          return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
        });
    RETURN_IF_ERROR(CheckNoHoles(entries));
    std::vector<SafetensorsInfo> infos;
    infos.reserve(entries.size());
    for (SafetensorsHeaderEntry& entry : entries) {
      ASSIGN_OR_RETURN(SafetensorsInfo info, Describe(entry));
      infos.push_back(std::move(info));
    }
    return infos;
  }

 private:
  absl::StatusOr<std::string_view> TakeHeader() {
    ByteCursor cursor(file_);
    const std::optional<uint64_t> size = cursor.Read<uint64_t>();
    if (!size.has_value()) {
      return FileError(file_name_,
                       absl::StrFormat("has %d bytes; the length of the header "
                                       "alone takes %d",
                                       file_.size(), kLengthBytes));
    }
    if (*size > kMaxHeaderBytes) {
      return FileErrorAt(file_name_, 0,
                         absl::StrFormat("the header has %d bytes; the limit "
                                         "is %d",
                                         *size, kMaxHeaderBytes));
    }
    const std::optional<std::string_view> header = cursor.ReadBytes(*size);
    if (!header.has_value()) {
      return FileErrorAt(file_name_, 0,
                         absl::StrFormat("the header needs %d bytes; the file "
                                         "has %d more",
                                         *size, cursor.remaining()));
    }
    if (!header->starts_with('{')) {
      return FileErrorAt(file_name_, kLengthBytes,
                         "the header does not begin with '{'");
    }
    data_start_ = cursor.offset();
    return *header;
  }

  absl::Status CheckNamesAreUnique(
      const std::vector<SafetensorsHeaderEntry>& entries) const {
    std::vector<std::string_view> names;
    names.reserve(entries.size());
    for (const auto& entry : entries) names.push_back(entry.name);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin == names.end()) return absl::OkStatus();
    return FileError(
        file_name_, absl::StrFormat("tensor %s is there twice", Quoted(*twin)));
  }

  // Each begins where the one before ends; the last ends with the file.
  absl::Status CheckNoHoles(
      const std::vector<SafetensorsHeaderEntry>& entries) const {
    const uint64_t data_bytes = file_.size() - data_start_;
    uint64_t expected = 0;
    for (const SafetensorsHeaderEntry& entry : entries) {
      if (entry.begin != expected || entry.end < entry.begin) {
        return FileError(
            file_name_,
            absl::StrFormat("tensor %s has data_offsets [%d, %d]; they begin "
                            "at %d, where the tensor before it ends",
                            Quoted(entry.name), entry.begin, entry.end,
                            expected));
      }
      expected = entry.end;
    }
    if (expected == data_bytes) return absl::OkStatus();
    const std::string last = entries.empty()
                                 ? "the header"
                                 : absl::StrFormat("tensor %s, the last,",
                                                   Quoted(entries.back().name));
    constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
    return FileError(
        file_name_,
        absl::StrFormat("%s ends at byte %d; the file has %d bytes", last,
                        CheckedAdd(data_start_, expected).value_or(kHuge),
                        file_.size()));
  }

  absl::StatusOr<SafetensorsInfo> Describe(
      SafetensorsHeaderEntry& entry) const {
    const StoredDtype* stored = FindStoredDtype(entry.dtype);
    if (stored == nullptr) {
      return FileError(
          file_name_, absl::StrFormat("tensor %s has the unknown dtype %s",
                                      Quoted(entry.name), Quoted(entry.dtype)));
    }
    const std::optional<uint64_t> bytes = BytesOf(*stored, entry.shape);
    if (bytes != entry.end - entry.begin) {
      return FileError(
          file_name_,
          absl::StrFormat("tensor %s has %d bytes; %s of shape [%s] takes %s",
                          Quoted(entry.name), entry.end - entry.begin,
                          stored->name, absl::StrJoin(entry.shape, ", "),
                          bytes ? absl::StrFormat("%d", *bytes)
                                : "no whole number below 2^64"));
    }
    return SafetensorsInfo{
        .name = std::move(entry.name),
        .dtype_name = stored->name,
        .dtype = stored->dtype,
        .shape = Shape(entry.shape.begin(), entry.shape.end()),
        .offset = data_start_ + entry.begin,
        .bytes = static_cast<int64_t>(*bytes)};
  }

  const std::span<const std::byte> file_;
  const std::string_view file_name_;
  uint64_t data_start_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<SafetensorsInfo>> ParseSafetensors(
    std::span<const std::byte> file, std::string_view file_name) {
  return SafetensorsParser(file, file_name).Parse();
}

bool LooksLikeSafetensors(std::span<const std::byte> file) {
  ByteCursor cursor(file);
  const std::optional<uint64_t> size = cursor.Read<uint64_t>();
  return size.has_value() && *size <= cursor.remaining() &&
         cursor.ReadBytes(1) == "{";
}

}  // namespace headrace
