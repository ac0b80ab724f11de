#include "engine/weights/json_document.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "engine/weights/file_error.h"

namespace headrace {
namespace {

using Json = nlohmann::ordered_json;

// Receives nlohmann's SAX events. Member names are the library's.
class DocumentBuilder {
 public:
  DocumentBuilder(std::string_view file_name,
                  std::vector<std::string>& warnings)
      : file_name_(file_name), warnings_(warnings) {}

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(int64_t value) { return Add(value); }
  bool number_unsigned(uint64_t value) { return Add(value); }
  bool number_float(double value, const std::string&) { return Add(value); }
  bool string(std::string& value) { return Add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON text has none
  bool start_object(size_t) { return Open(); }
  bool start_array(size_t) { return Open(); }
  bool key(std::string& name) {
    frames_.back().keys.push_back(std::move(name));
    return true;
  }
  bool end_object() {
    Frame frame = Close();
    const std::vector<bool> hidden = FindHidden(frame.keys);
    Json object = Json::object();
    auto& members = object.get_ref<Json::object_t&>();
    members.reserve(frame.keys.size());
    for (size_t i = 0; i < frame.keys.size(); ++i) {
      if (hidden[i]) continue;
      members.emplace_back(std::move(frame.keys[i]),
                           std::move(frame.values[i]));
    }
    return Add(std::move(object));
  }
  bool end_array() { return Add(Json(Close().values)); }
  bool parse_error(size_t position, const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) {
    status_ =
        FileErrorAt(file_name_, position,
                    absl::StrFormat("not JSON: %s", Printable(error.what())));
    return false;
  }

  absl::StatusOr<Json> Take() {
    if (!status_.ok()) return status_;
    return std::move(root_);
  }

 private:
  struct Frame {
    std::vector<std::string> keys;  // empty for an array
    Json::array_t values;
  };

  bool Open() {
    if (frames_.size() >= kMaxJsonDepth) {
      status_ = FileError(
          file_name_,
          absl::StrFormat("nests deeper than %d, the limit", kMaxJsonDepth));
      return false;
    }
    frames_.emplace_back();
    return true;
  }
  Frame Close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    return frame;
  }
  bool Add(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
    } else {
      frames_.back().values.push_back(std::move(value));
    }
    return true;
  }

  // Marks the members that a later one of the same name hides.
  std::vector<bool> FindHidden(const std::vector<std::string>& keys) {
    std::vector<bool> hidden(keys.size(), false);
    std::vector<size_t> order(keys.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&keys](size_t a, size_t b) { return keys[a] < keys[b]; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (keys[order[i - 1]] != keys[order[i]]) continue;
      hidden[order[i - 1]] = true;
      warnings_.push_back(
          absl::StrFormat("%s: key %s is there twice; the last value counts",
                          file_name_, Quoted(keys[order[i]])));
    }
    return hidden;
  }

  const std::string_view file_name_;
  std::vector<std::string>& warnings_;
  std::vector<Frame> frames_;
  Json root_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<Json> ParseJson(std::string_view text,
                               std::string_view file_name,
                               std::vector<std::string>& warnings) {
  if (text.size() > kMaxJsonBytes) {
    return FileError(file_name,
                     absl::StrFormat("has %d bytes; the limit for JSON is %d",
                                     text.size(), kMaxJsonBytes));
  }
  // The library takes a NUL for the end, and would never look behind it.
  const size_t nul = text.find('\0');
  if (nul != std::string_view::npos) {
    return FileErrorAt(file_name, nul, "not JSON: a NUL byte");
  }
  DocumentBuilder builder(file_name, warnings);
  // The result says no more than the builder's own status.
  static_cast<void>(Json::sax_parse(text, &builder));
  return builder.Take();
}

}  // namespace headrace
