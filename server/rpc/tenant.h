// Whose request a call is, where the connection says so.
#ifndef HEADRACE_SERVER_RPC_TENANT_H_
#define HEADRACE_SERVER_RPC_TENANT_H_

#include <memory>
#include <string>

#include "grpcpp/security/auth_context.h"
#include "grpcpp/server_context.h"

namespace headrace {

// The names in the client's certificate under mutual TLS; else `claimed`, what
// the request says of itself.
inline std::string TenantOf(const grpc::CallbackServerContext& call,
                            std::string claimed) {
  const std::shared_ptr<const grpc::AuthContext> peer = call.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return claimed;
  std::string names;
  for (const grpc::string_ref& name : peer->GetPeerIdentity()) {
    names.append(name.data(), name.size()).push_back('\n');
  }
  return names;
}

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_TENANT_H_
