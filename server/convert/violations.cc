#include "server/convert/violations.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "server/convert/error_details.h"

namespace headrace {

namespace {

// A status travels twice in trailers of 8 KiB: percent-encoded as text, and
// base64-encoded with its details (4/3 of their size, text included).
constexpr size_t kMaxDetailBytes = 4096;
constexpr size_t kMaxMessageBytes = 600;
constexpr size_t kMaxDescriptionBytes = 400;
constexpr size_t kMaxFieldBytes = 120;
// What a violation costs beside its two strings.
constexpr size_t kViolationOverhead = 12;
constexpr size_t kMaxListed = kMaxDetailBytes / kViolationOverhead;

}  // namespace

void Violations::Add(std::string field, std::string description) {
  ++count_;
  if (violations_.size() == kMaxListed) return;
  violations_.push_back({std::move(field), std::move(description)});
}

void Violations::AddAll(std::string_view prefix,
                        const std::vector<FieldViolation>& found) {
  for (const FieldViolation& violation : found) {
    std::string field(prefix);
    field.append(".").append(violation.field);
    Add(std::move(field), violation.description);
  }
}

void Violations::AddNotFound(std::string field, std::string_view type,
                             std::string_view name, std::string description) {
  if (not_found_count_++ == 0) {
    not_found_ = ResourceNotFound(
        type, name, Shortened(field, kMaxFieldBytes) + " " + description);
  }
  Add(std::move(field), std::move(description));
}

bool Violations::CheckTokenId(std::string_view field, int64_t index,
                              uint32_t id, int64_t vocab_size) {
  if (id < vocab_size) return true;
  Add(Indexed(field, index),
      absl::StrCat("must be below ", vocab_size,
                   ", the size of the vocabulary; is ", id));
  return false;
}

absl::Status Violations::ToStatus() const {
  if (empty()) return absl::OkStatus();
  if (count_ == not_found_count_) return not_found_;
  google::rpc::BadRequest details;
  std::string message;
  size_t detail_bytes = 0;
  size_t named = 0;
  for (const FieldViolation& violation : violations_) {
    const std::string field = Shortened(violation.field, kMaxFieldBytes);
    const std::string text =
        Shortened(violation.description, kMaxDescriptionBytes);
    detail_bytes += field.size() + text.size() + kViolationOverhead;
    if (detail_bytes > kMaxDetailBytes) break;
    auto* added = details.add_field_violations();
    added->set_field(field);
    added->set_description(text);
    const std::string line =
        absl::StrCat(named == 0 ? "" : "; ", field, " ", text);
    // The message stops first; the count below is of those it leaves out.
    if (message.size() + line.size() <= kMaxMessageBytes &&
        named + 1 == static_cast<size_t>(details.field_violations_size())) {
      message += line;
      ++named;
    }
  }
  if (const size_t rest = count_ - named; rest > 0) {
    absl::StrAppend(&message, "; and ", rest, " more");
  }
  const size_t listed = static_cast<size_t>(details.field_violations_size());
  if (const size_t rest = count_ - listed; rest > 0) {
    details.add_field_violations()->set_description(
        absl::StrCat("and ", rest, " more"));
  }
  return WithDetail(absl::InvalidArgumentError(message), details);
}

std::string Indexed(std::string_view field, int64_t index) {
  return std::string(field)
      .append("[")
      .append(std::to_string(index))
      .append("]");
}

}  // namespace headrace
