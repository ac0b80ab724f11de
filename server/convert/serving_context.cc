#include "server/convert/serving_context.h"

#include "absl/strings/str_cat.h"
#include "server/convert/error_details.h"

namespace headrace {

absl::Status CheckModelName(const std::string& name,
                            const ServingContext& context) {
  const std::string& served = context.engine->model().config.name;
  if (name.empty() || name == served) return absl::OkStatus();
  return ResourceNotFound(
      "headrace.v1.Model", name,
      absl::StrCat("model \"", Shortened(name, 200),
                   "\" is not served here; \"", served, "\" is"));
}

absl::Status CheckReplySize(int64_t bytes, const std::string& advice) {
  if (bytes <= kMaxUnaryReplyBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the reply would have ", bytes, " bytes; the limit is ",
                   kMaxUnaryReplyBytes, ": ", advice));
}

}  // namespace headrace
