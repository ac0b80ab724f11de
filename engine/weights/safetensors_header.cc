#include "engine/weights/safetensors_header.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "engine/weights/file_error.h"
#include "nlohmann/json.hpp"

namespace headrace {
namespace {

constexpr size_t kMaxTensors = size_t{1} << 20;  // ours
constexpr size_t kMaxRank = 8;                   // ours
constexpr std::string_view kMetadataKey = "__metadata__";

// Where in {"name": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
// the next event belongs.
enum class Place : uint8_t {
  kStart,     // before the outer {
  kHeader,    // among names
  kMetadata,  // among the strings of __metadata__
  kEntry,     // among the fields of a tensor
  kNumbers,   // inside shape or data_offsets
  kEnd,
};

enum class Field : uint8_t { kNone, kDtype, kShape, kOffsets };

// Receives nlohmann's SAX events. Member names are the library's.
class HeaderBuilder {
 public:
  explicit HeaderBuilder(std::string_view file_name) : file_name_(file_name) {}

  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("a bool"); }
  bool number_integer(int64_t value) {
    return Fail(absl::StrFormat("has the negative number %d", value));
  }
  bool number_float(double, const std::string& text) {
    return Fail(absl::StrFormat("has %s where an integer belongs", text));
  }
  bool number_unsigned(uint64_t value) {
    if (place_ != Place::kNumbers) return Unexpected("a number");
    if (numbers_.size() == kMaxRank) {
      return Fail(
          absl::StrFormat("has more than %d numbers in a list, the "
                          "limit",
                          kMaxRank));
    }
    numbers_.push_back(value);
    return true;
  }
  bool string(std::string& value) {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kEntry || field_ != Field::kDtype) {
      return Unexpected("a string");
    }
    entries_.back().dtype = std::move(value);
    return true;
  }
  bool binary(nlohmann::json::binary_t&) { return Unexpected("binary data"); }
  bool start_object(size_t) {
    if (place_ == Place::kStart) {
      place_ = Place::kHeader;
    } else if (place_ == Place::kHeader) {
      place_ = in_metadata_ ? Place::kMetadata : Place::kEntry;
    } else {
      return Unexpected("an object");
    }
    return true;
  }
  bool end_object() {
    if (place_ == Place::kHeader) {
      place_ = Place::kEnd;
      return true;
    }
    const bool complete = has_dtype_ && has_shape_ && has_offsets_;
    if (place_ == Place::kEntry && !complete) {
      return Fail("lacks one of dtype, shape and data_offsets");
    }
    place_ = Place::kHeader;
    return true;
  }
  bool start_array(size_t) {
    if (place_ != Place::kEntry || field_ == Field::kDtype) {
      return Unexpected("an array");
    }
    place_ = Place::kNumbers;
    numbers_.clear();
    return true;
  }
  bool end_array() {
    place_ = Place::kEntry;
    SafetensorsHeaderEntry& entry = entries_.back();
    if (field_ == Field::kShape) {
      entry.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) {
      return Fail(absl::StrFormat("has %d data_offsets; 2 are wanted",
                                  numbers_.size()));
    }
    entry.begin = numbers_[0];
    entry.end = numbers_[1];
    return true;
  }
  bool key(std::string& name) {
    if (place_ == Place::kMetadata) return true;
    return place_ == Place::kHeader ? StartEntry(std::move(name))
                                    : StartField(name);
  }
  bool parse_error(size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) {
    status_ = FileErrorAt(
        file_name_, sizeof(uint64_t) + position,
        absl::StrFormat("the header is not JSON: %s", Printable(error.what())));
    return false;
  }

  absl::StatusOr<std::vector<SafetensorsHeaderEntry>> Take() {
    if (!status_.ok()) return status_;
    return std::move(entries_);
  }

 private:
  bool StartEntry(std::string name) {
    field_ = Field::kNone;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    in_metadata_ = name == kMetadataKey;
    if (in_metadata_) return true;
    if (entries_.size() == kMaxTensors) {
      return Fail(
          absl::StrFormat("is followed by more; the limit is %d "
                          "tensors",
                          kMaxTensors));
    }
    entries_.emplace_back().name = std::move(name);
    return true;
  }

  bool StartField(const std::string& name) {
    bool* seen = nullptr;
    if (name == "dtype") {
      field_ = Field::kDtype;
      seen = &has_dtype_;
    } else if (name == "shape") {
      field_ = Field::kShape;
      seen = &has_shape_;
    } else if (name == "data_offsets") {
      field_ = Field::kOffsets;
      seen = &has_offsets_;
    } else {
      return Fail(absl::StrFormat("has the unknown field %s", Quoted(name)));
    }
    if (*seen) return Fail(absl::StrFormat("has %s twice", name));
    return *seen = true;
  }

  bool Unexpected(std::string_view what) {
    return Fail(absl::StrFormat("has %s out of place", what));
  }
  bool Fail(std::string_view message) {
    const std::string subject =
        in_metadata_ ? Quoted(kMetadataKey)
        : entries_.empty()
            ? "the header"
            : absl::StrFormat("tensor %s", Quoted(entries_.back().name));
    status_ = FileError(file_name_, absl::StrFormat("%s %s", subject, message));
    return false;
  }

  const std::string_view file_name_;
  Place place_ = Place::kStart;
  Field field_ = Field::kNone;
  bool in_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<uint64_t> numbers_;
  std::vector<SafetensorsHeaderEntry> entries_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::vector<SafetensorsHeaderEntry>> ParseSafetensorsHeader(
    std::string_view json, std::string_view file_name) {
  // The library takes a NUL for the end, and would never look behind it.
  const size_t nul = json.find('\0');
  if (nul != std::string_view::npos) {
    return FileErrorAt(file_name, sizeof(uint64_t) + nul,
                       "the header is not JSON: a NUL byte");
  }
  HeaderBuilder builder(file_name);
  // The result says no more than the builder's own status.
  static_cast<void>(nlohmann::json::sax_parse(json, &builder));
  return builder.Take();
}

}  // namespace headrace
