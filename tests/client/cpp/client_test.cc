#include "client/cpp/client.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace::client {
namespace {

using ::testing::HasSubstr;

constexpr char kCertificate[] = "-----BEGIN CERTIFICATE-----\nAA==\n";
constexpr char kKey[] = "-----BEGIN PRIVATE KEY-----\nAA==\n";

std::string Complaint(bool use_tls, const TlsOptions& tls) {
  const auto client = Client::Create(
      {.address = "127.0.0.1:1", .use_tls = use_tls, .tls = tls});
  return std::string(client.status().message());
}

// A certificate without TLS is a secret in plaintext.
TEST(ClientTest, CertificatesNeedTls) {
  EXPECT_THAT(Complaint(false, {.root_certificates = kCertificate}),
              HasSubstr("tls.root_certificates needs TLS"));
  EXPECT_THAT(Complaint(false, {.private_key = kKey,
                                .certificate_chain = kCertificate}),
              HasSubstr("needs TLS"));
  EXPECT_EQ(
      Complaint(true, {.private_key = kKey, .certificate_chain = kCertificate}),
      "");
}

TEST(ClientTest, WhatIsNoCertificateIsRefusedAtOnce) {
  EXPECT_EQ(Complaint(true, {.root_certificates = "junk"}),
            "tls.root_certificates has no CERTIFICATE in PEM form");
  EXPECT_EQ(Complaint(true, {.private_key = kCertificate,
                             .certificate_chain = kCertificate}),
            "tls.private_key has no PRIVATE KEY in PEM form");
  EXPECT_THAT(Complaint(true, {.certificate_chain = kCertificate}),
              HasSubstr("not one of them"));
}

}  // namespace
}  // namespace headrace::client
