#include "server/server.h"

#include <malloc.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/log/log.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/resource_limits.h"
#include "engine/base/status_macros.h"
#include "engine/base/worker_placement.h"
#include "grpcpp/ext/channelz_service_plugin.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"
#include "server/auth/addresses.h"
#include "server/auth/credentials.h"
#include "server/code_pages.h"
#include "server/rpc/malformed_requests.h"

namespace headrace {

namespace {

constexpr char kLiveness[] = "liveness";
// These follow readiness; liveness stays while the server drains.
const std::vector<std::string>& ReadinessNames() {
  static const auto& names = *new std::vector<std::string>{
      "", "readiness", "headrace.v1.InferenceService",
      "headrace.v1.ModelService", "headrace.v1.VectorService"};
  return names;
}

std::vector<std::string> AllHealthNames() {
  std::vector<std::string> names = ReadinessNames();
  names.push_back(kLiveness);
  return names;
}

// Time for calls to write what was computed, and then for connections to take
// leave.
constexpr absl::Duration kCallCloseTime = absl::Seconds(5);
constexpr absl::Duration kConnectionCloseTime = absl::Milliseconds(500);
constexpr absl::Duration kWatchInterval = absl::Seconds(1);

// gRPC's buffers may take this share of the memory, and so may the messages of
// open calls.
constexpr int64_t kGrpcMemoryShare = 8;
constexpr int64_t kMinGrpcMemory = int64_t{64} << 20;
constexpr int64_t kMaxGrpcMemory = int64_t{2} << 30;

size_t GrpcMemoryBytes() {
  return static_cast<size_t>(
      std::clamp(ReadResourceLimits().memory_bytes / kGrpcMemoryShare,
                 kMinGrpcMemory, kMaxGrpcMemory));
}

// And captured rows that wait for readers this one, whoever reads slowly.
constexpr int64_t kRingMemoryShare = 16;

int64_t RingMemoryBytes(int64_t max_capture_bytes) {
  return std::max(ReadResourceLimits().memory_bytes / kRingMemoryShare,
                  max_capture_bytes);
}

// And what clients keep here as much, unless a flag says otherwise.
int64_t VectorMemoryBytes(int64_t max_vector_bytes) {
  return max_vector_bytes > 0
             ? max_vector_bytes
             : ReadResourceLimits().memory_bytes / kRingMemoryShare;
}

// Tolerant of clients that ping through a long prefill; notices dead ones.
void SetChannelArguments(const ServerOptions& options,
                         grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  if (options.max_connection_age < absl::InfiniteDuration()) {
    // gRPC takes the largest int for ever.
    const int64_t age = std::clamp<int64_t>(
        absl::ToInt64Milliseconds(options.max_connection_age), 1,
        std::numeric_limits<int>::max());
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               static_cast<int>(age));
  }
  // On by default, it would count every message for nobody.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, options.channelz);
}

// Where threads of the server are not in the way of the one that computes and
// that all others wait for.
std::vector<int> CoresBesideBatchLoop(const ServerOptions& options) {
  const ResourceLimits limits = ReadResourceLimits();
  return PlaceWorkers(limits.ThreadsFor(options.engine.num_threads),
                      limits.has_cpu_quota)
      .CoresBesideFirst();
}

absl::Status CheckAtLeastOne(const char* name, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": must be at least 1; is ", value));
}

absl::Status CheckDuration(const char* name, absl::Duration value,
                           bool may_be_zero) {
  if (value > absl::ZeroDuration() ||
      (may_be_zero && value == absl::ZeroDuration())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": must be ", may_be_zero ? "at least 0" : "above 0",
                   "; is ", absl::FormatDuration(value)));
}

// What StepCosts tells apart beside kMaxDraftingSequences.
constexpr int64_t kMaxSpeculativeNgram = 16;

absl::Status CheckOptions(const ServerOptions& options) {
  RETURN_IF_ERROR(CheckAddresses(options.listen));
  RETURN_IF_ERROR(CheckAtLeastOne("max_num_seqs", options.max_num_seqs));
  RETURN_IF_ERROR(CheckAtLeastOne("max_queue", options.max_queue));
  RETURN_IF_ERROR(
      CheckAtLeastOne("max_capture_bytes", options.max_capture_bytes));
  if (options.max_vector_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_vector_bytes: must be at least 0; is ", options.max_vector_bytes));
  }
  RETURN_IF_ERROR(
      CheckDuration("max_vector_ttl", options.max_vector_ttl, false));
  if (options.speculative_ngram < 0 ||
      options.speculative_ngram > kMaxSpeculativeNgram) {
    return absl::InvalidArgumentError(
        absl::StrCat("speculative_ngram: must be from 0 to ",
                     kMaxSpeculativeNgram, "; is ", options.speculative_ngram));
  }
  RETURN_IF_ERROR(
      CheckDuration("max_decode_stall", options.max_decode_stall, true));
  RETURN_IF_ERROR(
      CheckDuration("max_reader_stall", options.max_reader_stall, false));
  RETURN_IF_ERROR(CheckDuration("drain_notice", options.drain_notice, true));
  RETURN_IF_ERROR(CheckDuration("drain_grace", options.drain_grace, true));
  RETURN_IF_ERROR(CheckDuration("stall_after", options.stall_after, false));
  RETURN_IF_ERROR(
      CheckDuration("max_connection_age", options.max_connection_age, false));
  return CheckExposure(options.listen, options.tls,
                       options.allow_insecure_remote);
}

std::string WithPort(const std::string& address, int port) {
  if (address.starts_with("unix")) return address;
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace

std::string BuildName() { return "headrace " HEADRACE_VERSION; }

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      health_(AllHealthNames()),
      rpc_(std::max(1, ReadResourceLimits().cores / 2),
           absl::StrFormat("%08x", absl::Uniform<uint32_t>(absl::BitGen())),
           static_cast<int64_t>(GrpcMemoryBytes())),
      vectors_({.max_bytes = VectorMemoryBytes(options_.max_vector_bytes),
                .max_time_to_live = options_.max_vector_ttl}) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Open(ServerOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  const StartThreadsThatGiveWay beside_batch_loop(
      CoresBesideBatchLoop(options));
  std::unique_ptr<Server> server(new Server(std::move(options)));
  ASSIGN_OR_RETURN(server->metrics_,
                   Metrics::Create(server->options_.metrics_listen));
  RETURN_IF_ERROR(server->Listen());
  server->health_.Set(kLiveness, true);
  server->watcher_ = std::thread([raw = server.get()] { raw->WatchLoop(); });
  return server;
}

absl::Status Server::Listen() {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ServerCredentials> credentials,
                   MakeServerCredentials(options_.tls));
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  if (options_.channelz) grpc::channelz::experimental::InitChannelzService();
  grpc::ServerBuilder builder;
  SetChannelArguments(options_, builder);
  builder.SetResourceQuota(
      grpc::ResourceQuota("headrace").Resize(GrpcMemoryBytes()));
  std::vector<int> ports(options_.listen.size());
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(options_.listen[i], credentials, &ports[i]);
  }
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(ExplainMalformedRequests());
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  builder.RegisterService(&inference_service_);
  builder.RegisterService(&model_service_);
  builder.RegisterService(&vector_service_);
  builder.RegisterService(&health_);
  builder.RegisterCallbackGenericService(&unknown_methods_);
  grpc_server_ = builder.BuildAndStart();
  const auto closed = std::find(ports.begin(), ports.end(), 0);
  if (closed != ports.end() || grpc_server_ == nullptr) {
    const size_t i = std::min<size_t>(closed - ports.begin(), ports.size() - 1);
    return absl::UnavailableError(
        absl::StrCat("listen: cannot open ", options_.listen[i],
                     ": it is taken, or no address of this machine"));
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    addresses_.push_back(WithPort(options_.listen[i], ports[i]));
  }
  return absl::OkStatus();
}

void Server::Serve(std::unique_ptr<Engine> engine) {
  engine_ = std::move(engine);
  const KvCacheStats kv_cache = engine_->kv_cache();
  BatchLoopOptions loop_options{
      .batcher = {.limits = {.max_batch_rows = options_.engine.max_batch_rows,
                             .max_num_seqs =
                                 std::min(options_.max_num_seqs,
                                          options_.engine.max_batch_rows),
                             .max_decode_stall = options_.max_decode_stall,
                             .max_ring_bytes =
                                 RingMemoryBytes(options_.max_capture_bytes),
                             .preemption = options_.preemption},
                  .max_drafts = options_.speculative_ngram,
                  .max_reader_stall = options_.max_reader_stall,
                  .on_request_done =
                      [this](const RequestRecord& record) {
                        metrics_->Count(record);
                      }},
      .max_queue = options_.max_queue};
  {
    const absl::MutexLock lock(&mutex_);
    loop_ = std::make_unique<BatchLoop>(engine_.get(), std::move(loop_options));
  }
  loop_->Start();
  model_.context = {
      .engine = engine_.get(),
      .kv_cache_rows = kv_cache.total_blocks * kv_cache.block_size,
      .max_ring_bytes = options_.max_capture_bytes,
      .random_seed = [] { return absl::Uniform<uint64_t>(absl::BitGen()); },
      .build = BuildName(),
      .vectors = &vectors_};
  model_.loop = loop_.get();
  rpc_.Serve(&model_);
  metrics_->Watch([this] { return stats(); },
                  [this] { return vectors_.stats(); });
}

void Server::SetReady() {
  const absl::MutexLock lock(&mutex_);
  ready_ = true;
  UpdateHealth();
}

void Server::UpdateHealth() {
  for (const std::string& name : ReadinessNames()) {
    health_.Set(name, ready_ && !stalled_ && !draining_);
  }
  health_.Set(kLiveness, !stalled_);
}

void Server::GiveMemoryBack(OpenCalls::Activity calls) {
  if (calls == OpenCalls::Activity::kNone) return;
  // Small blocks of large requests stay with the allocator, by threads.
  if (calls == OpenCalls::Activity::kEnded) malloc_trim(0);
  engine_->ReleaseFilePages();
  ReleaseCodePages();
}

void Server::WatchLoop() {
  const absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&closed_), kWatchInterval)) {
    vectors_.DropExpired();
    if (loop_ == nullptr) continue;
    GiveMemoryBack(rpc_.open_calls().TakeActivity());
    const bool stalled = loop_->StepTime() > options_.stall_after;
    if (stalled == stalled_) continue;
    if (stalled) {
      LOG(ERROR) << "a step takes longer than "
                 << absl::FormatDuration(options_.stall_after);
    }
    stalled_ = stalled;
    UpdateHealth();
  }
}

void Server::Drain(absl::Duration notice, absl::Duration grace) {
  {
    const absl::MutexLock lock(&mutex_);
    if (std::exchange(draining_, true)) return;
    UpdateHealth();
    if (loop_ != nullptr) {
      mutex_.AwaitWithTimeout(absl::Condition(&hurried_), notice);
    }
  }
  if (loop_ != nullptr) {
    loop_->BeginDrain();
    loop_->WaitUntilIdle(grace);
    loop_->CancelAll();
  }
  rpc_.open_calls().WaitUntilNone(kCallCloseTime);
  if (grpc_server_ != nullptr) {
    grpc_server_->Shutdown(
        absl::ToChronoTime(absl::Now() + kConnectionCloseTime));
  }
}

void Server::Hurry() {
  const absl::MutexLock lock(&mutex_);
  hurried_ = true;
  if (loop_ != nullptr) loop_->CancelAll();
}

Server::~Server() {
  Drain(absl::ZeroDuration(), absl::ZeroDuration());
  {
    const absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  if (watcher_.joinable()) watcher_.join();
  if (metrics_ != nullptr) metrics_->Watch(nullptr, nullptr);
  grpc_server_.reset();
}

}  // namespace headrace
