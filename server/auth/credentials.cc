#include "server/auth/credentials.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "openssl/bio.h"
#include "openssl/pem.h"
#include "openssl/x509.h"

namespace headrace {

namespace {

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using BioPtr = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using CertificatePtr = std::unique_ptr<X509, FreeWith<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;

absl::StatusOr<std::string> ReadFile(const std::string& flag,
                                     const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " is missing: TLS needs certificate and key"));
  }
  // A folder opens and cannot be read; a device may never end.
  std::error_code error;
  std::ifstream file(path, std::ios::binary);
  if (!file || !std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": cannot read ", path, ", or it is no file"));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

CertificatePtr ParseCertificate(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return CertificatePtr(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

absl::Status CheckCertificate(const std::string& flag, const std::string& path,
                              const std::string& pem) {
  if (ParseCertificate(pem) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": ", path, " holds no certificate in PEM form"));
}

// gRPC itself would find out only in the first handshake.
absl::Status CheckKey(const TlsOptions& options, const std::string& key_pem,
                      const std::string& certificate_pem) {
  const BioPtr bio(
      BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size())));
  const KeyPtr key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls_key_file: ", options.private_key_file,
                     " holds no private key in PEM form"));
  }
  const CertificatePtr certificate = ParseCertificate(certificate_pem);
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls_key_file: ", options.private_key_file,
                     " is not the key of ", options.certificate_file));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const TlsOptions& options) {
  if (!options.enabled()) return grpc::InsecureServerCredentials();
  ASSIGN_OR_RETURN(std::string certificate,
                   ReadFile("tls_cert_file", options.certificate_file));
  RETURN_IF_ERROR(
      CheckCertificate("tls_cert_file", options.certificate_file, certificate));
  ASSIGN_OR_RETURN(std::string key,
                   ReadFile("tls_key_file", options.private_key_file));
  RETURN_IF_ERROR(CheckKey(options, key, certificate));
  grpc::SslServerCredentialsOptions ssl;
  if (!options.client_ca_file.empty()) {
    ASSIGN_OR_RETURN(ssl.pem_root_certs,
                     ReadFile("tls_client_ca_file", options.client_ca_file));
    RETURN_IF_ERROR(CheckCertificate(
        "tls_client_ca_file", options.client_ca_file, ssl.pem_root_certs));
    ssl.client_certificate_request =
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  ssl.pem_key_cert_pairs.push_back({std::move(key), std::move(certificate)});
  return grpc::SslServerCredentials(ssl);
}

}  // namespace headrace
