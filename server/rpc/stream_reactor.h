// A server-streaming RPC that writes the events of one request: Generate and
// Forward.
//
// Three kinds of threads meet here: a converter resolves the request, the batch
// loop's events are written by the writers' thread, and gRPC calls the
// reactions. One mutex orders them, `finished_` makes Finish() happen once, and
// whoever still has something to do holds a reference.
#ifndef HEADRACE_SERVER_RPC_STREAM_REACTOR_H_
#define HEADRACE_SERVER_RPC_STREAM_REACTOR_H_

#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "headrace/v1/generation.pb.h"
#include "server/batching/event_stream.h"
#include "server/convert/generate_request.h"
#include "server/rpc/call_deadline.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/status.h"
#include "server/rpc/tenant.h"
#include "server/rpc/wire_message.h"

namespace headrace {

// Tokens and prompt log probabilities that may wait for one reader.
inline constexpr int64_t kMaxWaitingTokens = 1024;

// `Traits` says what the two RPCs differ in:
//   using Request, Response;
//   static v1::GenerateRequest / const& AsGenerate(const Request&);
//   static bool Fill(StreamEvent&, const v1::Header&, const Tokenizer*,
//                    Response&);  // false: the event has no message
template <typename Traits>
class StreamReactor final
    : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
      public std::enable_shared_from_this<StreamReactor<Traits>> {
 public:
  using Request = typename Traits::Request;
  using Response = typename Traits::Response;

  // The reactor lives until OnDone() and the last of its tasks.
  static StreamReactor* Create(RpcContext* rpc,
                               grpc::CallbackServerContext* call,
                               const Request* request) {
    auto reactor = std::make_shared<StreamReactor>(rpc, call, request);
    StreamReactor* const raw = reactor.get();
    raw->self_ = reactor;
    // gRPC keeps call and request until Finish(), which waits for Convert().
    if (!raw->open_call_.status().ok()) {
      raw->Finish(ToGrpcStatus(raw->open_call_.status()));
    } else if (!rpc->converters().Post([reactor] { reactor->Convert(); })) {
      raw->Finish(
          ToGrpcStatus(absl::ResourceExhaustedError("the server is busy")));
    }
    return raw;
  }

  // For Create() only.
  StreamReactor(RpcContext* rpc, grpc::CallbackServerContext* call,
                const Request* request)
      : rpc_(rpc),
        open_call_(rpc->open_calls(), *request),
        call_(call),
        request_(request) {}

  void OnWriteDone(bool ok) override {
    {
      const absl::MutexLock lock(&mutex_);
      writing_ = false;
      if (finished_) {
        if (early_end_.has_value()) this->Finish(ToGrpcStatus(*early_end_));
        return;
      }
      if (!ok) {  // the stream is broken
        FinishEarly(absl::CancelledError("the client is gone"));
        return;
      }
    }
    Pump();
  }

  void OnCancel() override {
    const absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (finished_ || stream_ == nullptr) return;  // Submit() looks
    FinishEarly(absl::CancelledError("the call was cancelled"));
  }

  void OnDone() override { self_.reset(); }

 private:
  // Resolves and submits the request, on a converter's thread.
  void Convert() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::Status status = Submit();
    if (status.ok()) return;
    const absl::MutexLock lock(&mutex_);
    finished_ = true;
    this->Finish(ToGrpcStatus(status));
  }

  bool Cancelled() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    return cancelled_;
  }

  absl::Status Submit() ABSL_LOCKS_EXCLUDED(mutex_) {
    // Nobody waits for it any more: the queue of conversions moves on.
    if (Cancelled()) return absl::CancelledError("the call was cancelled");
    const absl::StatusOr<const ServedModel*> model = rpc_->model();
    if (!model.ok()) return model.status();
    absl::StatusOr<ResolvedGenerate> resolved =
        ResolveGenerate(Traits::AsGenerate(*request_), (*model)->context);
    if (!resolved.ok()) return resolved.status();
    resolved->request.deadline = DeadlineOf(*call_);
    resolved->request.tenant =
        TenantOf(*call_, std::move(resolved->request.tenant));
    auto stream = std::make_shared<EventStream>(
        resolved->request.layout, kMaxWaitingTokens,
        [rpc = rpc_, weak = this->weak_from_this()] {
          rpc->writers().Post([weak] {
            if (const auto reactor = weak.lock()) reactor->Pump();
          });
        },
        std::move(resolved->request.resume));
    {
      const absl::MutexLock lock(&mutex_);
      if (cancelled_) return absl::CancelledError("the call was cancelled");
      const absl::StatusOr<RequestId> id = (*model)->loop->Submit(
          {.request = std::move(resolved->request), .stream = stream});
      if (!id.ok()) return id.status();
      model_ = *model;
      header_ = std::move(resolved->header);
      header_.set_request_id(rpc_->NameOf(*id));
      request_id_ = *id;
      stream_ = std::move(stream);
    }
    Pump();  // finds nothing, or the first event; arms the call
    return absl::OkStatus();
  }

  // Writes the next event, unless a write is under way. A write starts with the
  // mutex free: gRPC wakes the thread that runs OnWriteDone() before
  // StartWrite() returns, and on a busy machine that one would find the mutex
  // taken.
  void Pump() ABSL_LOCKS_EXCLUDED(mutex_) {
    switch (PrepareWrite()) {
      case Write::kNone:
        return;
      case Write::kEvent:
        this->StartWrite(&response_);
        return;
      case Write::kLast:
        this->StartWriteAndFinish(&response_, grpc::WriteOptions(),
                                  grpc::Status::OK);
    }
  }

  enum class Write { kNone, kEvent, kLast };

  // Puts the next event into response_, which is the caller's to write.
  Write PrepareWrite() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    while (!writing_ && !finished_ && stream_ != nullptr) {
      std::optional<StreamEvent> event = stream_->Pop();
      if (!event.has_value()) break;
      if (const auto* failed = std::get_if<FailedEvent>(&*event)) {
        finished_ = true;
        this->Finish(ToGrpcStatus(failed->status));
        break;
      }
      Response response;
      const bool last = std::holds_alternative<EndEvent>(*event);
      if (!Traits::Fill(*event, header_, model_->context.engine->tokenizer(),
                        response)) {
        continue;
      }
      response_ = ToWire(response);
      writing_ = true;
      finished_ = last;
      return last ? Write::kLast : Write::kEvent;
    }
    return Write::kNone;
  }

  // While a write is under way, OnWriteDone() says it to gRPC: no call is
  // finished before its last write has started.
  void FinishEarly(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = true;
    model_->loop->Cancel(request_id_);
    stream_->Abandon();
    if (writing_) {
      early_end_ = status;
    } else {
      this->Finish(ToGrpcStatus(status));
    }
  }

  RpcContext* const rpc_;
  const OpenCall open_call_;
  grpc::CallbackServerContext* const call_;
  const Request* const request_;
  std::shared_ptr<StreamReactor> self_;  // until OnDone()

  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> early_end_ ABSL_GUARDED_BY(mutex_);
  const ServedModel* model_ ABSL_GUARDED_BY(mutex_) = nullptr;
  RequestId request_id_ ABSL_GUARDED_BY(mutex_){};
  v1::Header header_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<EventStream> stream_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer response_;  // of the write under way
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_STREAM_REACTOR_H_
