#include "server/rpc/rpc_context.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/batching/retry_after.h"

namespace headrace {

absl::StatusOr<const ServedModel*> RpcContext::model() const {
  const ServedModel* model = model_;
  if (model != nullptr) return model;
  return WithRetryAfter(absl::UnavailableError("the model is being loaded"),
                        absl::Seconds(1));
}

std::string RpcContext::NameOf(RequestId id) const {
  return absl::StrCat(run_id_, "-", static_cast<uint64_t>(id));
}

}  // namespace headrace
