#include "server/rpc/unknown_methods.h"

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpcpp/support/status.h"

namespace headrace {

namespace {

// A longer one would not fit into what clients take as a status.
constexpr size_t kMaxNameBytes = 256;

class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const std::string& method) {
    Finish({grpc::StatusCode::UNIMPLEMENTED,
            absl::StrCat("this server has no method ",
                         method.substr(0, kMaxNameBytes))});
  }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerGenericBidiReactor* UnknownMethods::CreateReactor(
    grpc::GenericCallbackServerContext* call) {
  return new Refusal(call->method());
}

}  // namespace headrace
