// How a port is protected: plaintext on loopback, TLS, or mutual TLS.
#ifndef HEADRACE_SERVER_AUTH_CREDENTIALS_H_
#define HEADRACE_SERVER_AUTH_CREDENTIALS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"

namespace headrace {

// PEM files. All empty: plaintext.
struct TlsOptions {
  std::string certificate_file;  // the chain, the server's own first
  std::string private_key_file;
  // Clients must show a certificate signed by one of these; empty: they need
  // none.
  std::string client_ca_file;

  bool enabled() const {
    return !certificate_file.empty() || !private_key_file.empty() ||
           !client_ca_file.empty();
  }
};

// Errors: INVALID_ARGUMENT naming the file and what is wrong with it.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& options);

}  // namespace headrace

#endif  // HEADRACE_SERVER_AUTH_CREDENTIALS_H_
