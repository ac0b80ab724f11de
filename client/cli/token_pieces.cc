#include "client/cli/token_pieces.h"

#include "nlohmann/json.hpp"

namespace headrace::cli {

absl::StatusOr<std::string> PieceOfToken(client::Client& client,
                                         const std::string& model,
                                         uint32_t id) {
  v1::DetokenizeRequest request;
  request.set_model(model);
  request.add_ids(id);
  auto response = client.Detokenize(request);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_data());
}

std::string ReadableText(const std::string& piece) {
  const std::string quoted = nlohmann::json(piece).dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

}  // namespace headrace::cli
