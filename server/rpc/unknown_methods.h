// Calls of methods that this server does not have: refused by name, where gRPC
// by itself leaves the message empty.
#ifndef HEADRACE_SERVER_RPC_UNKNOWN_METHODS_H_
#define HEADRACE_SERVER_RPC_UNKNOWN_METHODS_H_

#include "grpcpp/generic/async_generic_service.h"

namespace headrace {

class UnknownMethods final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* call) override;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_UNKNOWN_METHODS_H_
