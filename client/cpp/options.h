// How a client reaches a server.
#ifndef HEADRACE_CLIENT_CPP_OPTIONS_H_
#define HEADRACE_CLIENT_CPP_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace headrace::client {

struct TlsOptions {
  // PEM texts. Empty roots: the system's.
  std::string root_certificates;
  std::string private_key;  // with certificate_chain: mTLS
  std::string certificate_chain;
};

struct ClientOptions {
  std::string address = "127.0.0.1:50051";  // host:port, or a gRPC target
  bool use_tls = false;
  TlsOptions tls;
  // Of every call; infinite: none.
  absl::Duration timeout = absl::InfiniteDuration();
  // Of a connection that is not up yet; a call fails with UNAVAILABLE after it.
  absl::Duration connect_timeout = absl::Seconds(10);
};

}  // namespace headrace::client

#endif  // HEADRACE_CLIENT_CPP_OPTIONS_H_
