#include "server/rpc/embed.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_macros.h"
#include "server/batching/event_stream.h"
#include "server/convert/embed_request.h"
#include "server/rpc/call_deadline.h"
#include "server/rpc/pooling_sink.h"
#include "server/rpc/status.h"
#include "server/rpc/tenant.h"

namespace headrace {

namespace {

// Inputs of one call that are queued or running at a time, so that a large
// call does not fill the queue.
constexpr size_t kMaxInputsInFlight = 8;
// Start and end are the only events of an input.
constexpr int64_t kWaitingTokens = 2;

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

// Threads meet here as in StreamReactor. gRPC's request and response are
// touched only before Finish().
class EmbedReactor final : public grpc::ServerUnaryReactor,
                           public std::enable_shared_from_this<EmbedReactor> {
 public:
  static EmbedReactor* Create(RpcContext* rpc,
                              grpc::CallbackServerContext* call,
                              const v1::EmbedRequest* request,
                              v1::EmbedResponse* response) {
    auto reactor = std::make_shared<EmbedReactor>(rpc, call, request, response);
    EmbedReactor* const raw = reactor.get();
    raw->self_ = reactor;
    if (!raw->open_call_.status().ok()) {
      raw->Finish(ToGrpcStatus(raw->open_call_.status()));
    } else if (!rpc->converters().Post([reactor] { reactor->Convert(); })) {
      raw->Finish(
          ToGrpcStatus(absl::ResourceExhaustedError("the server is busy")));
    }
    return raw;
  }

  // For Create() only.
  EmbedReactor(RpcContext* rpc, grpc::CallbackServerContext* call,
               const v1::EmbedRequest* request, v1::EmbedResponse* response)
      : rpc_(rpc),
        open_call_(rpc->open_calls(), *request),
        call_(call),
        request_(request),
        response_(response) {}

  void OnCancel() override {
    const absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (!finished_ && model_ != nullptr) {
      FinishEarly(absl::CancelledError("the call was cancelled"));
    }
  }

  void OnDone() override { self_.reset(); }

 private:
  struct Input {
    RequestId id{};
    std::shared_ptr<EventStream> stream;
    std::shared_ptr<PooledRows> pooled;
    bool done = false;
  };

  bool Cancelled() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

  absl::StatusOr<ResolvedEmbed> Resolve() ABSL_LOCKS_EXCLUDED(mutex_) {
    if (Cancelled()) return absl::CancelledError("the call was cancelled");
    ASSIGN_OR_RETURN(const ServedModel* const model, rpc_->model());
    return ResolveEmbed(*request_, model->context);
  }

  void Convert() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::StatusOr<ResolvedEmbed> embed = Resolve();
    const absl::MutexLock lock(&mutex_);
    if (!embed.ok()) {
      finished_ = true;
      Finish(ToGrpcStatus(embed.status()));
      return;
    }
    model_ = *rpc_->model();
    embed_ = *std::move(embed);
    if (cancelled_) {
      FinishEarly(absl::CancelledError("the call was cancelled"));
    } else {
      SubmitMore();
    }
  }

  // Submits what may run now; answers when nothing is left. An input may be
  // done the moment it is submitted.
  void SubmitMore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!finished_ && inputs_.size() < embed_.requests.size() &&
           inputs_.size() - done_ < kMaxInputsInFlight) {
      const absl::Status status = SubmitNext();
      if (status.ok()) continue;
      FinishEarly(status);
      return;
    }
    if (!finished_ && done_ == embed_.requests.size()) Answer();
  }

  absl::Status SubmitNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t index = inputs_.size();
    Request request = embed_.requests[index];
    request.deadline = DeadlineOf(*call_);
    request.tenant = TenantOf(*call_, std::move(request.tenant));
    auto pooled = std::make_shared<PooledRows>();
    auto stream = std::make_shared<EventStream>(
        request.layout, kWaitingTokens,
        [rpc = rpc_, weak = weak_from_this(), index] {
          rpc->writers().Post([weak, index] {
            if (const auto reactor = weak.lock()) reactor->Read(index);
          });
        });
    const absl::StatusOr<RequestId> id =
        model_->loop->Submit({.request = std::move(request),
                              .stream = stream,
                              .sink = std::make_unique<PoolingSink>(pooled)});
    if (!id.ok()) return id.status();
    inputs_.push_back({*id, std::move(stream), std::move(pooled)});
    ReadLocked(index);  // arms the stream's call
    return absl::OkStatus();
  }

  void Read(size_t index) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    ReadLocked(index);
    if (!finished_) SubmitMore();
  }

  void ReadLocked(size_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Input& input = inputs_[index];
    while (!finished_ && !input.done) {
      std::optional<StreamEvent> event = input.stream->Pop();
      if (!event.has_value()) return;
      if (const auto* failed = std::get_if<FailedEvent>(&*event)) {
        FinishEarly(failed->status);
      } else if (std::holds_alternative<EndEvent>(*event)) {
        input.done = true;
        ++done_;
      }
    }
  }

  void Answer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::vector<std::vector<float>> vectors;
    vectors.reserve(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      vectors.push_back(MeanRow(*inputs_[i].pooled, embed_.normalize));
      if (AllFinite(vectors.back())) continue;
      FinishEarly(absl::InternalError(absl::StrCat(
          "the embedding of inputs[", i,
          "] is not finite: the model's weights overflow or hold values that "
          "are not numbers")));
      return;
    }
    *response_ = MakeEmbedResponse(embed_, vectors);
    finished_ = true;
    Finish(grpc::Status::OK);
  }

  void FinishEarly(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = true;
    for (const Input& input : inputs_) {
      if (input.done) continue;
      model_->loop->Cancel(input.id);
      input.stream->Abandon();
    }
    Finish(ToGrpcStatus(status));
  }

  RpcContext* const rpc_;
  const OpenCall open_call_;
  grpc::CallbackServerContext* const call_;
  const v1::EmbedRequest* const request_;
  v1::EmbedResponse* const response_;
  std::shared_ptr<EmbedReactor> self_;  // until OnDone()

  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  const ServedModel* model_ ABSL_GUARDED_BY(mutex_) = nullptr;
  ResolvedEmbed embed_ ABSL_GUARDED_BY(mutex_);
  std::vector<Input> inputs_ ABSL_GUARDED_BY(mutex_);  // submitted so far
  size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

grpc::ServerUnaryReactor* StartEmbed(RpcContext* rpc,
                                     grpc::CallbackServerContext* call,
                                     const v1::EmbedRequest* request,
                                     v1::EmbedResponse* response) {
  return EmbedReactor::Create(rpc, call, request, response);
}

}  // namespace headrace
