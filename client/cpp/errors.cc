#include "client/cpp/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/internal/status_details.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace headrace::client {
namespace {

// The first detail of type T that the server sent.
template <typename T>
std::optional<T> FindDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(internal::kStatusDetailsUrl);
  google::rpc::Status details;
  if (!payload.has_value() || !details.ParseFromString(std::string(*payload))) {
    return std::nullopt;
  }
  for (const google::protobuf::Any& any : details.details()) {
    T detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

}  // namespace

std::vector<FieldError> FieldErrors(const absl::Status& status) {
  std::vector<FieldError> fields;
  const auto bad = FindDetail<google::rpc::BadRequest>(status);
  if (!bad.has_value()) return fields;
  for (const auto& violation : bad->field_violations()) {
    fields.push_back({violation.field(), violation.description()});
  }
  return fields;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const auto retry = FindDetail<google::rpc::RetryInfo>(status);
  if (!retry.has_value()) return std::nullopt;
  return absl::Seconds(retry->retry_delay().seconds()) +
         absl::Nanoseconds(retry->retry_delay().nanos());
}

std::string Describe(const absl::Status& status) {
  std::string text = absl::StrCat(absl::StatusCodeToString(status.code()), ": ",
                                  status.message());
  for (const FieldError& error : FieldErrors(status)) {
    absl::StrAppend(&text, "\n  ", error.field, ": ", error.description);
  }
  if (const auto delay = RetryDelay(status); delay.has_value()) {
    absl::StrAppend(&text, "\n  retry in ", absl::FormatDuration(*delay));
  }
  return text;
}

}  // namespace headrace::client
