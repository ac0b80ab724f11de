#include "server/convert/error_details.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/tokenizer/detokenizer.h"
#include "google/rpc/error_details.pb.h"
#include "server/batching/retry_after.h"

namespace headrace {

namespace {

constexpr char kTypePrefix[] = "type.googleapis.com/";
constexpr size_t kMaxMessageBytes = 1000;
constexpr std::string_view kEllipsis = "\u2026";

}  // namespace

absl::Status WithDetail(absl::Status status,
                        const google::protobuf::Message& detail) {
  status.SetPayload(
      absl::StrCat(kTypePrefix, detail.GetDescriptor()->full_name()),
      absl::Cord(detail.SerializeAsString()));
  return status;
}

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status result;
  result.set_code(static_cast<int>(status.code()));
  const absl::string_view message = status.message();
  result.set_message(
      Shortened({message.data(), message.size()}, kMaxMessageBytes));
  status.ForEachPayload(
      [&result](absl::string_view type_url, const absl::Cord& payload) {
        if (!absl::StartsWith(type_url, kTypePrefix)) return;
        google::protobuf::Any* detail = result.add_details();
        detail->set_type_url(std::string(type_url));
        detail->set_value(std::string(payload));
      });
  if (const auto delay = RetryAfter(status); delay.has_value()) {
    google::rpc::RetryInfo retry;
    const int64_t milliseconds = absl::ToInt64Milliseconds(*delay);
    retry.mutable_retry_delay()->set_seconds(milliseconds / 1000);
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(milliseconds % 1000 * 1'000'000));
    result.add_details()->PackFrom(retry);
  }
  return result;
}

absl::Status ResourceNotFound(std::string_view type, std::string_view name,
                              std::string message) {
  google::rpc::ResourceInfo info;
  info.set_resource_type(std::string(type));
  info.set_resource_name(Shortened(name, kMaxMessageBytes));
  info.set_description(message);
  return WithDetail(absl::NotFoundError(message), info);
}

absl::Status QuotaExceeded(const absl::Status& status,
                           std::string_view subject) {
  google::rpc::QuotaFailure failure;
  auto& violation = *failure.add_violations();
  violation.set_subject(std::string(subject));
  violation.set_description(std::string(status.message()));
  return WithDetail(status, failure);
}

std::string Shortened(std::string_view text, size_t max_bytes) {
  std::string valid = ToValidUtf8(text);
  if (valid.size() <= max_bytes) return valid;
  valid.resize(max_bytes - kEllipsis.size());
  valid.resize(CompleteUtf8Prefix(valid));
  valid.append(kEllipsis);
  return valid;
}

}  // namespace headrace
