// Where a server listens: the forms of an address, and who reaches it.
#ifndef HEADRACE_SERVER_AUTH_ADDRESSES_H_
#define HEADRACE_SERVER_AUTH_ADDRESSES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/auth/credentials.h"

namespace headrace {

// Errors: INVALID_ARGUMENT unless every address is host:port with a port from 0
// to 65535, unix:path or unix-abstract:name. gRPC itself takes a port modulo
// 65536, and 443 where there is none.
absl::Status CheckAddresses(const std::vector<std::string>& addresses);

// Is `address` reachable from this machine only? "127.0.0.1:50051",
// "[::1]:0", "localhost:1", "unix:/run/headrace.sock".
bool IsLocalAddress(const std::string& address);

// Errors: INVALID_ARGUMENT for an address that others reach, in plaintext,
// unless `allow_insecure_remote`.
absl::Status CheckExposure(const std::vector<std::string>& addresses,
                           const TlsOptions& tls, bool allow_insecure_remote);

}  // namespace headrace

#endif  // HEADRACE_SERVER_AUTH_ADDRESSES_H_
