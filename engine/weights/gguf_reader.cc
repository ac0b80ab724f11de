#include "engine/weights/gguf_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
#include "engine/base/status_macros.h"
#include "engine/weights/checked_math.h"
#include "engine/weights/file_error.h"
#include "engine/weights/gguf_cursor.h"
#include "engine/weights/gguf_metadata.h"
#include "engine/weights/gguf_types.h"

namespace headrace {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxTensorNameBytes = 64;  // docs/gguf.md
constexpr uint32_t kMaxDims = 4;              // GGML_MAX_DIMS
constexpr uint64_t kMaxTensors = 1u << 20;    // ours
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;  // docs/gguf.md: a multiple of 8
// Name length, one byte of name, n_dims, one dim, type, offset.
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 8 + 4 + 8;

class GgufParser {
 public:
  GgufParser(std::span<const std::byte> file, std::string_view file_name)
      : cursor_(file, file_name) {}

  absl::StatusOr<GgufContents> Parse() {
    RETURN_IF_ERROR(ParseCounts());
    ASSIGN_OR_RETURN(contents_.metadata, TakeGgufMetadata(num_keys_, cursor_));
    RETURN_IF_ERROR(ParseTensorInfos());
    RETURN_IF_ERROR(ParseAlignment());
    RETURN_IF_ERROR(PlaceTensors());
    RETURN_IF_ERROR(CheckOverlaps());
    return std::move(contents_);
  }

 private:
  absl::Status ParseCounts() {
    ASSIGN_OR_RETURN(const std::string_view magic,
                     cursor_.TakeBytes("magic", kMagic.size()));
    if (magic != kMagic) {
      return cursor_.ErrorAt(
          0, absl::StrFormat("not a GGUF file: it begins with %s, not %s",
                             Quoted(magic), Quoted(kMagic)));
    }
    ASSIGN_OR_RETURN(contents_.version, cursor_.Take<uint32_t>("version"));
    const uint32_t version = contents_.version;
    if ((version & 0xFFFF) == 0) {
      return cursor_.ErrorAt(
          4, absl::StrFormat("version is %#x: a big-endian file; "
                             "only little-endian is supported",
                             version));
    }
    if (version != 2 && version != 3) {
      return cursor_.ErrorAt(
          4, absl::StrFormat("version is %d; 2 and 3 are supported", version));
    }
    ASSIGN_OR_RETURN(num_tensors_, cursor_.Take<uint64_t>("tensor count"));
    ASSIGN_OR_RETURN(num_keys_, cursor_.Take<uint64_t>("key count"));
    RETURN_IF_ERROR(cursor_.CheckCount(8, "tensor count", num_tensors_,
                                       kMinTensorInfoBytes));
    RETURN_IF_ERROR(
        cursor_.CheckCount(16, "key count", num_keys_, kMinGgufKeyValueBytes));
    if (num_tensors_ > kMaxTensors) {
      return cursor_.ErrorAt(
          8, absl::StrFormat("tensor count is %d; the limit is %d",
                             num_tensors_, kMaxTensors));
    }
    return absl::OkStatus();
  }

  absl::Status ParseTensorInfos() {
    for (uint64_t i = 0; i < num_tensors_; ++i) {
      cursor_.set_subject(
          absl::StrFormat("tensor %d of %d:", i + 1, num_tensors_));
      const uint64_t start = cursor_.offset();
      ASSIGN_OR_RETURN(const std::string_view name,
                       cursor_.TakeString("name", kMaxTensorNameBytes));
      if (name.empty()) return cursor_.ErrorAt(start, "the name is empty");
      cursor_.set_subject(absl::StrFormat("tensor %s", Quoted(name)));
      GgufTensorInfo info{.name = std::string(name)};
      ASSIGN_OR_RETURN(info.shape, TakeShape());
      ASSIGN_OR_RETURN(info.dtype, TakeDtype());
      ASSIGN_OR_RETURN(info.bytes, BytesOf(info));
      // From the start of the data until PlaceTensors().
      ASSIGN_OR_RETURN(info.offset, cursor_.Take<uint64_t>("offset"));
      contents_.tensors.push_back(std::move(info));
    }
    cursor_.set_subject("");
    return absl::OkStatus();
  }

  absl::StatusOr<Shape> TakeShape() {
    const uint64_t offset = cursor_.offset();
    ASSIGN_OR_RETURN(const uint32_t num_dims, cursor_.Take<uint32_t>("n_dims"));
    if (num_dims < 1 || num_dims > kMaxDims) {
      return cursor_.ErrorAt(offset,
                             absl::StrFormat("has %d dimensions; 1 to %d are "
                                             "legal",
                                             num_dims, kMaxDims));
    }
    Shape shape(num_dims);
    for (uint32_t i = 0; i < num_dims; ++i) {
      const uint64_t at = cursor_.offset();
      ASSIGN_OR_RETURN(const uint64_t dim, cursor_.Take<uint64_t>("dimension"));
      if (dim == 0 || dim > std::numeric_limits<int64_t>::max()) {
        return cursor_.ErrorAt(
            at, absl::StrFormat("has dimension %d = %d; 1 to 2^63 - 1 are "
                                "legal",
                                i, dim));
      }
      shape[num_dims - 1 - i] = static_cast<int64_t>(dim);
    }
    return shape;
  }

  absl::StatusOr<DType> TakeDtype() {
    const uint64_t offset = cursor_.offset();
    ASSIGN_OR_RETURN(const uint32_t id, cursor_.Take<uint32_t>("type"));
    const GgmlType* type = FindGgmlType(id);
    if (type == nullptr) {
      return cursor_.ErrorAt(offset,
                             absl::StrFormat("has the unknown type %d", id));
    }
    if (!type->dtype.has_value()) {
      return absl::UnimplementedError(
          absl::StrFormat("%s: offset %d: %s has type %s; supported are %s",
                          cursor_.file_name(), offset, cursor_.Subject(),
                          type->name, SupportedGgmlTypes()));
    }
    return *type->dtype;
  }

  absl::StatusOr<int64_t> BytesOf(const GgufTensorInfo& info) const {
    const DTypeLayout layout = LayoutOf(info.dtype);
    if (info.shape.back() % layout.elements != 0) {
      return cursor_.ErrorAt(
          cursor_.offset(),
          absl::StrFormat("has rows of %d elements; %s stores blocks of %d",
                          info.shape.back(), layout.name, layout.elements));
    }
    std::optional<uint64_t> bytes = layout.bytes;
    for (size_t i = 0; i < info.shape.size() && bytes.has_value(); ++i) {
      const bool row = i + 1 == info.shape.size();
      bytes = CheckedMul(*bytes,
                         row ? info.shape[i] / layout.elements : info.shape[i]);
    }
    if (!bytes.has_value() || *bytes > cursor_.file_size()) {
      return cursor_.ErrorAt(
          cursor_.offset(),
          absl::StrFormat("of shape %s and type %s needs %s; the "
                          "file has %d bytes",
                          ShapeToString(info.shape), layout.name,
                          bytes ? absl::StrFormat("%d bytes", *bytes)
                                : "more than 2^64 bytes",
                          cursor_.file_size()));
    }
    return static_cast<int64_t>(*bytes);
  }

  absl::Status ParseAlignment() {
    const auto it = contents_.metadata.find("general.alignment");
    if (it == contents_.metadata.end()) return absl::OkStatus();
    const uint64_t value =
        it->is_number_unsigned() ? it->get<uint64_t>() : uint64_t{0};
    if (value < kMinAlignment || (value & (value - 1)) != 0) {
      return FileError(
          cursor_.file_name(),
          absl::StrFormat("key \"general.alignment\" is %s; an "
                          "unsigned power of two, at least %d, "
                          "is legal",
                          it->is_number() ? it->dump() : it->type_name(),
                          kMinAlignment));
    }
    alignment_ = value;
    return absl::OkStatus();
  }

  absl::Status PlaceTensors() {
    if (contents_.tensors.empty()) return absl::OkStatus();
    const std::optional<uint64_t> padded =
        CheckedAdd(cursor_.offset(), alignment_ - 1);
    const uint64_t data_start = padded.value_or(0) & ~(alignment_ - 1);
    if (!padded.has_value() || data_start > cursor_.file_size()) {
      return FileError(
          cursor_.file_name(),
          absl::StrFormat("ends at %d bytes, inside the header; the data of "
                          "tensor %s starts after it, aligned to %d",
                          cursor_.file_size(),
                          Quoted(contents_.tensors[0].name), alignment_));
    }
    for (GgufTensorInfo& info : contents_.tensors) {
      RETURN_IF_ERROR(PlaceTensor(data_start, info));
    }
    return absl::OkStatus();
  }

  absl::Status PlaceTensor(uint64_t data_start, GgufTensorInfo& info) const {
    if (info.offset % alignment_ != 0) {
      return FileError(
          cursor_.file_name(),
          absl::StrFormat("tensor %s has offset %d; the alignment is %d",
                          Quoted(info.name), info.offset, alignment_));
    }
    const std::optional<uint64_t> begin = CheckedAdd(data_start, info.offset);
    const std::optional<uint64_t> end =
        begin ? CheckedAdd(*begin, info.bytes) : std::nullopt;
    if (!end.has_value() || *end > cursor_.file_size()) {
      return FileErrorAt(
          cursor_.file_name(), begin.value_or(data_start),
          absl::StrFormat("tensor %s needs %d bytes from offset %d of the "
                          "data, which is at %d; the file has %d bytes",
                          Quoted(info.name), info.bytes, info.offset,
                          data_start, cursor_.file_size()));
    }
    info.offset = *begin;
    return absl::OkStatus();
  }

  absl::Status CheckOverlaps() const {
    std::vector<const GgufTensorInfo*> sorted;
    for (const GgufTensorInfo& info : contents_.tensors) {
      sorted.push_back(&info);
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
      return a->offset < b->offset;
    });
    for (size_t i = 1; i < sorted.size(); ++i) {
      const GgufTensorInfo& before = *sorted[i - 1];
      if (before.offset + before.bytes <= sorted[i]->offset) continue;
      return FileErrorAt(
          cursor_.file_name(), sorted[i]->offset,
          absl::StrFormat("tensor %s begins inside tensor %s, which is at %d "
                          "to %d",
                          Quoted(sorted[i]->name), Quoted(before.name),
                          before.offset, before.offset + before.bytes));
    }
    return absl::OkStatus();
  }

  GgufCursor cursor_;
  uint64_t num_tensors_ = 0;
  uint64_t num_keys_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  GgufContents contents_;
};

}  // namespace

absl::StatusOr<GgufContents> ParseGguf(std::span<const std::byte> file,
                                       std::string_view file_name) {
  return GgufParser(file, file_name).Parse();
}

bool HasGgufMagic(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() &&
         std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

}  // namespace headrace
