// A unary RPC whose answer is a function of the request and the model.
#ifndef HEADRACE_SERVER_RPC_UNARY_REACTOR_H_
#define HEADRACE_SERVER_RPC_UNARY_REACTOR_H_

#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/rpc_context.h"
#include "server/rpc/status.h"

namespace headrace {

// Answers on a converter's thread. Deletes itself. A call that was cancelled
// while it waited costs nothing; one that is being answered is short work.
template <typename Request, typename Response>
class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  using Handler = absl::StatusOr<Response> (*)(const Request&,
                                               const ServingContext&);

  UnaryReactor(RpcContext* rpc, grpc::CallbackServerContext* call,
               const Request* request, Response* response, Handler handler)
      : open_call_(rpc->open_calls(), *request) {
    if (!open_call_.status().ok()) {
      Finish(ToGrpcStatus(open_call_.status()));
      return;
    }
    const bool posted = rpc->converters().Post([=, this] {
      Finish(ToGrpcStatus(call->IsCancelled()
                              ? absl::CancelledError("the call was cancelled")
                              : Answer(*rpc, *request, *response, handler)));
    });
    if (!posted) {
      Finish(ToGrpcStatus(absl::ResourceExhaustedError("the server is busy")));
    }
  }

  void OnDone() override { delete this; }

 private:
  static absl::Status Answer(const RpcContext& rpc, const Request& request,
                             Response& response, Handler handler) {
    const absl::StatusOr<const ServedModel*> model = rpc.model();
    if (!model.ok()) return model.status();
    absl::StatusOr<Response> answer = handler(request, (*model)->context);
    if (!answer.ok()) return answer.status();
    response = *std::move(answer);
    return absl::OkStatus();
  }

  const OpenCall open_call_;
};

}  // namespace headrace

#endif  // HEADRACE_SERVER_RPC_UNARY_REACTOR_H_
