// The program headrace-server as whoever starts it sees it: ready line, exit
// status, signals, and what happens when stdout is closed or full.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "headrace/v1/inference.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/testing/files.h"
#include "tests/testing/gguf_model.h"
#include "tests/testing/tiny_model.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

// A child process with its stdout and stderr in pipes.
class Process {
 public:
  // `prepare` runs in the child before exec, with its stdout in place.
  explicit Process(std::vector<std::string> arguments,
                   void (*prepare)() = nullptr) {
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    EXPECT_EQ(pipe(out.data()), 0);
    EXPECT_EQ(pipe(err.data()), 0);
    arguments.insert(arguments.begin(),
                     HEADRACE_BINARY_DIR "/bin/headrace-server");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], STDOUT_FILENO);
      dup2(err[1], STDERR_FILENO);
      for (const int fd : {out[0], out[1], err[0], err[1]}) close(fd);
      if (prepare != nullptr) prepare();
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ~Process() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(err_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Up to and with the next newline of stdout; what there is when it ends.
  std::string ReadLine() { return ReadUntil(out_, '\n'); }
  std::string ReadErrors() { return ReadUntil(err_, '\0'); }
  void Signal(int signal) const { kill(pid_, signal); }

  // The exit status; -1 when it does not end, -2 when a signal ended it.
  int Wait() {
    const absl::Time deadline = absl::Now() + kPatience;
    int status = 0;
    while (waitpid(pid_, &status, WNOHANG) == 0) {
      if (absl::Now() > deadline) return -1;
      absl::SleepFor(absl::Milliseconds(5));
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  }

 private:
  static std::string ReadUntil(int fd, char end) {
    std::string text;
    char c = 0;
    pollfd ready{.fd = fd, .events = POLLIN};
    while (poll(&ready, 1,
                static_cast<int>(absl::ToInt64Milliseconds(kPatience))) > 0 &&
           read(fd, &c, 1) == 1) {
      text += c;
      if (c == end) break;
    }
    return text;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
};

class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest()
      : model_(WriteGgufModel(BuildTinyModel(), folder_.Join("tiny.gguf"))
                   .front()) {}

  std::vector<std::string> Arguments(std::vector<std::string> more = {}) const {
    std::vector<std::string> arguments = {"--model", model_, "--threads", "1",
                                          "--kv_cache_bytes=8000000"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // The first address of the ready line.
  static std::string AddressOf(const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return "";
    return json["listen"][0];
  }

  static bool IsServing(const std::string& address) {
    const auto stub = grpc::health::v1::Health::NewStub(
        grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    const auto watch =
        stub->Watch(&context, grpc::health::v1::HealthCheckRequest());
    grpc::health::v1::HealthCheckResponse response;
    while (watch->Read(&response)) {
      if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) {
        context.TryCancel();
        return true;
      }
    }
    return false;
  }

  TempFolder folder_;
  const std::string model_;
};

TEST_F(ProcessTest, SaysThatItServesAndStopsOnSigterm) {
  Process server(Arguments({"--listen", "127.0.0.1:0"}));
  const std::string line = server.ReadLine();
  const auto json = nlohmann::json::parse(line, nullptr, false);
  ASSERT_TRUE(json.is_object()) << line << server.ReadErrors();
  EXPECT_EQ(json["event"], "serving");
  EXPECT_EQ(json["threads"], 1);
  EXPECT_TRUE(IsServing(AddressOf(line)));

  server.Signal(SIGTERM);

  EXPECT_EQ(server.Wait(), 0);
  EXPECT_THAT(server.ReadErrors(), HasSubstr("stopped"));
}

TEST_F(ProcessTest, StopsOnSigintToo) {
  Process server(Arguments({"--listen=127.0.0.1:0"}));
  ASSERT_FALSE(server.ReadLine().empty());

  server.Signal(SIGINT);

  EXPECT_EQ(server.Wait(), 0);
}

TEST_F(ProcessTest, ListenMayBeGivenSeveralTimes) {
  Process server(Arguments({"--listen", "127.0.0.1:0", "--listen",
                            "127.0.0.1:0", "--listen=127.0.0.1:0"}));
  const auto json = nlohmann::json::parse(server.ReadLine(), nullptr, false);

  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["listen"].size(), 3u);
}

// The ready line sits in a buffer, or a closed stdout ends the server
// (hyrise/hyrise#2650, amule-org/amule#1439).
TEST_F(ProcessTest, AClosedStdoutIsHarmless) {
  const std::string address = "unix:" + folder_.Join("server.sock");
  Process server(Arguments({"--listen", address}),
                 [] { close(STDOUT_FILENO); });

  EXPECT_TRUE(IsServing(address));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST_F(ProcessTest, AFullStdoutIsHarmless) {
  const std::string address = "unix:" + folder_.Join("server.sock");
  Process server(Arguments({"--listen", address}), [] {
    const std::array<char, 4096> block{};
    fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
    while (write(STDOUT_FILENO, block.data(), block.size()) > 0) {
    }
    fcntl(STDOUT_FILENO, F_SETFL, 0);
  });

  EXPECT_TRUE(IsServing(address));
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0);
}

TEST_F(ProcessTest, ATakenPortIsAnErrorWithTheAddress) {
  Process first(Arguments({"--listen", "127.0.0.1:0"}));
  const std::string address = AddressOf(first.ReadLine());
  ASSERT_FALSE(address.empty());

  Process second(Arguments({"--listen", address}));

  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.ReadErrors(), HasSubstr("cannot open " + address));
}

TEST_F(ProcessTest, BadStartsAreRefusedWithTheReason) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "--model is missing"},
      {{"--model", folder_.Join("nothing.gguf")}, "nothing.gguf"},
      {Arguments({"--numerics", "quick"}), "exact or fast"},
      {Arguments({"--rope_scaling", "magic"}), "\"magic\""},
      {Arguments({"--rope_factor", "2"}), "--rope_scaling"},
      {Arguments({"--rope_scaling", "linear", "--rope_factor", "0.5"}), "0.5"},
      {Arguments({"--listen", "0.0.0.0:0"}), "open to other machines"},
      {Arguments({"--tls_cert_file", folder_.Join("no.pem")}), "no.pem"},
      {Arguments({"stray"}), "unexpected argument: stray"},
      {Arguments({"--no_such_flag"}), "no_such_flag"},
  };
  for (const auto& [arguments, reason] : cases) {
    std::vector<std::string> given = arguments;
    given.insert(given.begin(), "--listen=127.0.0.1:0");
    Process server(given);
    EXPECT_EQ(server.Wait(), 1) << reason;
    EXPECT_THAT(server.ReadErrors(), HasSubstr(reason));
  }
}

TEST_F(ProcessTest, HelpAndVersionSucceed) {
  Process help({"--help"});
  EXPECT_EQ(help.ReadLine(),
            "headrace-server --model PATH [--listen 127.0.0.1:50051]\n");
  EXPECT_EQ(help.Wait(), 0);
  Process version({"--version"});
  EXPECT_THAT(version.ReadLine(), HasSubstr("headrace "));
  EXPECT_EQ(version.Wait(), 0);
}

TEST_F(ProcessTest, ASecondSignalEndsTheGrace) {
  Process server(Arguments({"--listen=127.0.0.1:0", "--drain_grace=600s"}));
  const std::string address = AddressOf(server.ReadLine());
  ASSERT_TRUE(IsServing(address));
  const auto stub = v1::InferenceService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::GenerateRequest request;
  request.set_text("hello");
  request.mutable_stop()->set_ignore_eos(true);
  v1::CaptureSpec& capture = *request.mutable_capture();
  capture.add_hooks()->set_hook(v1::HOOK_POINT_LOGITS);
  capture.mutable_rows()->mutable_generated()->set_all(true);
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse event;
  ASSERT_TRUE(reader->Read(&event));

  server.Signal(SIGTERM);
  server.Signal(SIGTERM);

  EXPECT_EQ(server.Wait(), 0);
}

// OpenMP takes its thread count from the environment (kserve/kserve#1031).
TEST_F(ProcessTest, TheEnvironmentDoesNotChooseThreads) {
  Process server(Arguments({"--listen=127.0.0.1:0"}), [] {
    setenv("OMP_NUM_THREADS", "64", 1);
    setenv("OMP_WAIT_POLICY", "active", 1);
  });

  const auto json = nlohmann::json::parse(server.ReadLine(), nullptr, false);

  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["threads"], 1);
}

}  // namespace
}  // namespace headrace
