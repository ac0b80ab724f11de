#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/auth/addresses.h"
#include "server/auth/credentials.h"
#include "tests/server/server_fixture.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

// Certificates of an authority of our own, made with the openssl program.
class TlsTest : public ServerFixture {
 protected:
  static void SetUpTestSuite() {
    folder_ = ::testing::TempDir() + "headrace_tls_test/";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    const std::string make =
        "cd " + folder_ +
        " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256"
        " -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"
        " -addext basicConstraints=critical,CA:TRUE"
        " && for name in server client; do"
        " openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        " -keyout $name.key -out $name.csr -subj /CN=$name"
        " && printf subjectAltName=DNS:$name,DNS:localhost,IP:127.0.0.1 > "
        "$name.ext"
        " && openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key"
        " -CAcreateserial -days 2 -extfile $name.ext -out $name.pem || exit 1;"
        " done";
    ASSERT_EQ(std::system(("(" + make + ") > " + folder_ + "log 2>&1").c_str()),
              0)
        << Read("log");
  }

  static std::string Read(const std::string& name) {
    std::ifstream file(folder_ + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static TlsOptions ServerTls() {
    return {.certificate_file = folder_ + "server.pem",
            .private_key_file = folder_ + "server.key"};
  }

  grpc::StatusCode Call(const std::string& address,
                        const grpc::SslCredentialsOptions& ssl) {
    const auto stub = v1::InferenceService::NewStub(
        grpc::CreateChannel(address, grpc::SslCredentials(ssl)));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    v1::TokenizeRequest request;
    request.add_texts("hello");
    v1::TokenizeResponse response;
    return stub->Tokenize(&context, request, &response).error_code();
  }

  // Reads to the end.
  static grpc::StatusCode StatusOf(
      grpc::ClientReader<v1::GenerateResponse>& reader) {
    v1::GenerateResponse event;
    while (reader.Read(&event)) {
    }
    return reader.Finish().error_code();
  }

  static std::string folder_;
};

std::string TlsTest::folder_;

TEST_F(TlsTest, ServesClientsThatTrustTheAuthority) {
  ServerOptions options;
  options.tls = ServerTls();
  Start(options);

  EXPECT_EQ(Call(server_->addresses()[0], {.pem_root_certs = Read("ca.pem")}),
            grpc::StatusCode::OK);
  EXPECT_EQ(Generate(Text("hello", 1)).status.error_code(),
            grpc::StatusCode::UNAVAILABLE)
      << "plaintext";
}

TEST_F(TlsTest, MutualTlsRefusesClientsWithoutACertificate) {
  ServerOptions options;
  options.tls = ServerTls();
  options.tls.client_ca_file = folder_ + "ca.pem";
  Start(options);
  grpc::SslCredentialsOptions anonymous{.pem_root_certs = Read("ca.pem")};
  grpc::SslCredentialsOptions known = anonymous;
  known.pem_private_key = Read("client.key");
  known.pem_cert_chain = Read("client.pem");

  EXPECT_EQ(Call(server_->addresses()[0], known), grpc::StatusCode::OK);
  EXPECT_EQ(Call(server_->addresses()[0], anonymous),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(TlsTest, UnderMutualTlsTheCertificateSaysWhoseARequestIs) {
  ServerOptions options{.max_num_seqs = 1, .max_queue = 2};
  options.tls = ServerTls();
  options.tls.client_ca_file = folder_ + "ca.pem";
  Start(options);
  absl::Notification release;
  engine_->on_step = [&](const Batch&) { release.WaitForNotification(); };
  const auto stub_as = [&](const std::string& name) {
    return v1::InferenceService::NewStub(grpc::CreateChannel(
        server_->addresses()[0],
        grpc::SslCredentials({.pem_root_certs = Read("ca.pem"),
                              .pem_private_key = Read(name + ".key"),
                              .pem_cert_chain = Read(name + ".pem")})));
  };
  const auto flood = stub_as("client");
  const auto guest = stub_as("server");
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  const auto ask = [&](v1::InferenceService::Stub& stub,
                       const std::string& salt) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    v1::GenerateRequest request = Text("hello", 2);
    request.mutable_cache()->set_salt(salt);
    return stub.Generate(contexts.back().get(), request);
  };
  const auto running = ask(*flood, "a");
  EXPECT_TRUE(Eventually([&] { return engine_->opened() == 1; }));
  const auto first = ask(*flood, "b");
  EXPECT_TRUE(
      Eventually([&] { return server_->stats().queued_requests == 1; }));
  const auto second = ask(*flood, "c");
  EXPECT_TRUE(
      Eventually([&] { return server_->stats().queued_requests == 2; }));

  const auto other = ask(*guest, "a");
  EXPECT_TRUE(
      Eventually([&] { return server_->stats().rejected_requests == 1; }));
  release.Notify();

  EXPECT_EQ(StatusOf(*running), grpc::StatusCode::OK);
  EXPECT_EQ(StatusOf(*first), grpc::StatusCode::OK);
  EXPECT_EQ(StatusOf(*second), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << "other salts do not make other tenants of one certificate";
  EXPECT_EQ(StatusOf(*other), grpc::StatusCode::OK);
}

TEST_F(TlsTest, WrongFilesAreRefusedAtTheStart) {
  const auto message = [](TlsOptions tls) {
    return std::string(MakeServerCredentials(tls).status().message());
  };
  TlsOptions tls = ServerTls();
  tls.private_key_file.clear();
  EXPECT_THAT(message(tls), HasSubstr("tls_key_file is missing"));
  tls.private_key_file = folder_ + "client.key";
  EXPECT_THAT(message(tls), HasSubstr("is not the key of"));
  tls.private_key_file = folder_ + "server.pem";
  EXPECT_THAT(message(tls), HasSubstr("holds no private key"));
  tls.certificate_file = folder_ + "nothing.pem";
  EXPECT_THAT(message(tls), HasSubstr("cannot read"));
  tls.certificate_file = folder_ + "log";
  EXPECT_THAT(message(tls), HasSubstr("holds no certificate"));
  tls.certificate_file = folder_;
  EXPECT_THAT(message(tls), HasSubstr("no file"));
}

TEST(AddressTest, KnowsWhatOthersCanReach) {
  for (const char* address : {"127.0.0.1:50051", "127.1.2.3:0", "[::1]:0",
                              "localhost:1", "unix:/run/x.sock"}) {
    EXPECT_TRUE(IsLocalAddress(address)) << address;
  }
  for (const char* address :
       {"0.0.0.0:50051", "[::]:0", "10.0.0.1:1", "example.org:1",
        "127.0.0.1.example.org:1", "localhost.example.org:1"}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
  }
}

TEST(AddressTest, OtherFormsAreRefused) {
  for (const char* address : {"127.0.0.1:0", "[::1]:65535", "localhost:1",
                              "unix:/run/x.sock", "unix-abstract:x"}) {
    EXPECT_TRUE(CheckAddresses({address}).ok()) << address;
  }
  for (const char* address :
       {"", "nonsense", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
        "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1:2x", ":1", "::1:0",
        "unix:", "unix-abstract:", "http://127.0.0.1:0"}) {
    EXPECT_THAT(std::string(CheckAddresses({"[::1]:0", address}).message()),
                HasSubstr("host:port"))
        << address;
  }
}

}  // namespace
}  // namespace headrace
