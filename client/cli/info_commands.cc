// headrace models, hooks and health: what a server is.
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/json_output.h"

namespace headrace::cli {

absl::Status RunModels(client::Client& client, const CliOptions& options) {
  const auto response = client.ListModels();
  if (!response.ok()) return response.status();
  if (options.json) return PrintJsonLine(*response);
  for (const v1::Model& model : response->models()) {
    std::cout << absl::StrFormat(
        "%s\n  %s, %d layers, hidden %d, %d/%d heads of %d, vocabulary %d\n"
        "  %s %s, %s numerics, keys and values in %s, %d threads, %s\n"
        "  context %d (trained at %d)\n",
        model.name(), model.architecture(), model.num_hidden_layers(),
        model.hidden_size(), model.num_attention_heads(),
        model.num_key_value_heads(), model.head_dim(), model.vocab_size(),
        model.weight_format(), model.weight_dtype(),
        model.numerics() == v1::NUMERICS_MODE_EXACT ? "exact" : "fast",
        model.kv_cache_dtype(), model.threads(), model.isa(),
        model.context_length(), model.max_position_embeddings());
  }
  return absl::OkStatus();
}

absl::Status RunHooks(client::Client& client, const CliOptions& options) {
  const auto response = client.ListHookPoints(options.model);
  if (!response.ok()) return response.status();
  if (options.json) return PrintJsonLine(*response);
  std::cout << absl::StrFormat("%-18s %6s %6s  %s\n", "hook", "layers", "width",
                               "TransformerLens name, or why it is refused");
  for (const v1::HookPointInfo& hook : response->hooks()) {
    std::cout << absl::StrFormat(
        "%-18s %6d %6d  %s\n", hook.name(), hook.layer_count(), hook.width(),
        hook.capturable() ? hook.transformer_lens()
                          : absl::StrCat("refused: ", hook.refusal()));
  }
  return absl::OkStatus();
}

absl::Status RunHealth(client::Client& client, const CliOptions& options) {
  const std::string service =
      options.positional.empty() ? "" : options.positional.front();
  const auto status = client.Health(service);
  if (!status.ok()) return status.status();
  if (*status == client::ServingStatus::kServing) {
    std::cout << "SERVING" << "\n" << std::flush;
    return absl::OkStatus();
  }
  return absl::UnavailableError(*status == client::ServingStatus::kNotServing
                                    ? "NOT_SERVING"
                                    : "UNKNOWN");
}

}  // namespace headrace::cli
