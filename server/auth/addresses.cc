#include "server/auth/addresses.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace headrace {

namespace {

constexpr std::string_view kSocketPrefixes[] = {"unix:", "unix-abstract:"};
constexpr uint32_t kMaxPort = 65535;

// What is behind "unix:" or "unix-abstract:"; null for another address.
const char* SocketName(const std::string& address) {
  for (const std::string_view prefix : kSocketPrefixes) {
    if (address.starts_with(prefix)) return address.c_str() + prefix.size();
  }
  return nullptr;
}

bool IsHostAndPort(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view host = address.substr(0, colon);
  const bool bracketed = host.front() == '[' && host.back() == ']';
  if (!bracketed && host.find(':') != std::string_view::npos) return false;
  const std::string port(address.substr(colon + 1));
  if (port.find_first_not_of("0123456789") != std::string::npos) return false;
  uint32_t number = 0;
  return absl::SimpleAtoi(port, &number) && number <= kMaxPort;
}

}  // namespace

absl::Status CheckAddresses(const std::vector<std::string>& addresses) {
  if (addresses.empty()) {
    return absl::InvalidArgumentError("listen: must name an address");
  }
  for (const std::string& address : addresses) {
    const char* const socket = SocketName(address);
    if (socket != nullptr ? *socket != '\0' : IsHostAndPort(address)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("listen: must be host:port, with a port from 0 to ",
                     kMaxPort, ", or unix:path; is \"", address, "\""));
  }
  return absl::OkStatus();
}

bool IsLocalAddress(const std::string& address) {
  if (SocketName(address) != nullptr) return true;
  const std::string host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  // A name may begin with these digits too, and lead anywhere.
  return host.starts_with("127.") &&
         host.find_first_not_of("0123456789.") == std::string::npos;
}

absl::Status CheckExposure(const std::vector<std::string>& addresses,
                           const TlsOptions& tls, bool allow_insecure_remote) {
  if (tls.enabled() || allow_insecure_remote) return absl::OkStatus();
  for (const std::string& address : addresses) {
    if (IsLocalAddress(address)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "listen: ", address,
        " is open to other machines without TLS; give "
        "--tls_cert_file and --tls_key_file, or --allow_insecure_remote"));
  }
  return absl::OkStatus();
}

}  // namespace headrace
