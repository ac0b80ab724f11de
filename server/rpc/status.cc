#include "server/rpc/status.h"

#include "server/convert/error_details.h"

namespace headrace {

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status details = ToRpcStatus(status);
  return grpc::Status(
      static_cast<grpc::StatusCode>(details.code()), details.message(),
      details.details().empty() ? std::string() : details.SerializeAsString());
}

}  // namespace headrace
