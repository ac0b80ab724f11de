// headrace trace: activations of a prompt (and what follows) to a numpy file.
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/activation_table.h"
#include "client/cli/capture_builder.h"
#include "client/cli/command.h"
#include "client/cli/html_page.h"
#include "client/cli/html_pages.h"
#include "client/cli/interrupt.h"
#include "client/cli/npz_writer.h"
#include "client/cli/request_builder.h"
#include "client/cli/token_pieces.h"
#include "client/cli/trace_report.h"

namespace headrace::cli {
namespace {

// What a trace gathers from its stream.
struct Trace {
  v1::Header header;
  std::vector<int64_t> tokens;  // prompt and generated
  ActivationTable activations;
  uint64_t rows = 0;
};

template <typename T>
std::string_view Bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

void ShowProgress(const Trace& trace) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::cerr << "\r" << trace.rows << " of "
            << trace.header.activation_rows_expected() << " rows "
            << std::flush;
}

absl::Status Collect(client::GenerateStream& stream, Trace& trace) {
  while (std::optional<v1::GenerateResponse> event = stream.Next()) {
    if (event->has_header()) {
      trace.header = event->header();
      trace.tokens.assign(trace.header.prompt_token_ids().begin(),
                          trace.header.prompt_token_ids().end());
    } else if (event->has_token()) {
      trace.tokens.push_back(event->token().id());
    } else if (event->has_activations()) {
      trace.rows += event->activations().row_count();
      if (absl::Status status = trace.activations.Add(event->activations());
          !status.ok()) {
        return status;
      }
      ShowProgress(trace);
    }
  }
  if (isatty(STDERR_FILENO) != 0) std::cerr << "\n";
  return stream.Finish();
}

using HooksByPoint = std::map<v1::HookPoint, v1::HookPointInfo>;

// [heads, rows, keys] under the hook's name; which heads, and with top_keys
// which keys, beside it.
absl::Status SaveAttention(const std::string& name, const AttentionArray& array,
                           float empty, NpzWriter& npz,
                           std::vector<int64_t>& positions) {
  std::vector<int64_t> heads;
  for (const auto& [head, rows] : array.heads) heads.push_back(head);
  positions.clear();
  for (const AttentionArray::Row& row : array.heads.begin()->second) {
    positions.push_back(row.position);
  }
  const std::vector<int64_t> shape = {static_cast<int64_t>(heads.size()),
                                      static_cast<int64_t>(positions.size()),
                                      array.keys()};
  const std::vector<float> dense = array.Dense(empty);
  if (absl::Status status = npz.Add(name, "<f4", shape, Bytes(dense));
      !status.ok()) {
    return status;
  }
  const std::vector<int64_t> keys = array.KeyPositions();
  if (!keys.empty()) {
    if (absl::Status status =
            npz.Add(name + ".keys", "<i8", shape, Bytes(keys));
        !status.ok()) {
      return status;
    }
  }
  return npz.Add(name + ".heads", "<i8", {shape[0]}, Bytes(heads));
}

absl::Status Save(const Trace& trace, const HooksByPoint& by_hook,
                  const std::string& path) {
  NpzWriter npz(path);
  std::vector<int64_t> positions;
  for (const auto& [key, array] : trace.activations.arrays()) {
    positions = array.positions;
    if (absl::Status status =
            npz.Add(ArrayName(by_hook.at(key.first), key.second), "<f4",
                    {array.rows(), array.width}, Bytes(array.values));
        !status.ok()) {
      return status;
    }
  }
  for (const auto& [key, array] : trace.activations.attention()) {
    const float empty = key.first == v1::HOOK_POINT_ATTN_SCORES
                            ? -std::numeric_limits<float>::infinity()
                            : 0;
    if (absl::Status status =
            SaveAttention(ArrayName(by_hook.at(key.first), key.second), array,
                          empty, npz, positions);
        !status.ok()) {
      return status;
    }
  }
  const std::pair<const char*, const std::vector<int64_t>*> integers[] = {
      {"tokens", &trace.tokens}, {"positions", &positions}};
  for (const auto& [name, values] : integers) {
    if (absl::Status status =
            npz.Add(name, "<i8", {static_cast<int64_t>(values->size())},
                    Bytes(*values));
        !status.ok()) {
      return status;
    }
  }
  return npz.Finish();
}

absl::Status WritePage(client::Client& client, const Trace& trace,
                       const HooksByPoint& by_hook, const std::string& path) {
  std::vector<std::string> pieces;
  for (const int64_t token : trace.tokens) {
    absl::StatusOr<std::string> piece = PieceOfToken(
        client, trace.header.model(), static_cast<uint32_t>(token));
    // A model without a tokenizer has ids only.
    pieces.push_back(piece.ok() ? *std::move(piece) : absl::StrCat(token));
  }
  return WriteHtmlPage(
      kTracePage, TraceJson(trace.header, pieces, trace.activations, by_hook),
      path);
}

}  // namespace

absl::Status RunTrace(client::Client& client, const CliOptions& options) {
  if (options.capture.out.empty() && options.html.empty()) {
    return absl::InvalidArgumentError(
        "--out FILE.npz or --html FILE is missing");
  }
  absl::StatusOr<v1::GenerateRequest> request = BuildGenerateRequest(options);
  if (!request.ok()) return request.status();
  if (absl::Status status = SetPrompt(options, *request); !status.ok()) {
    return status;
  }
  if (request->sampling().n() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a trace is of one choice; --n is ", request->sampling().n()));
  }
  // A trace is of the prompt unless tokens are asked for.
  if (!request->stop().has_max_tokens()) {
    request->mutable_stop()->set_max_tokens(0);
  }
  const auto hooks = client.ListHookPoints(options.model);
  if (!hooks.ok()) return hooks.status();
  if (absl::Status status =
          SetCapture(options.capture, *hooks, *request->mutable_capture());
      !status.ok()) {
    return status;
  }
  Trace trace;
  if (request->has_tokens()) {
    trace.tokens.assign(request->tokens().ids().begin(),
                        request->tokens().ids().end());
  }
  const auto stream = client.Generate(*request);
  const InterruptScope interrupt([&] { stream->Cancel(); });
  if (absl::Status status = Collect(*stream, trace); !status.ok()) {
    return status;
  }
  if (options.capture.verify) {
    int64_t checked = 0;
    if (absl::Status status = trace.activations.Verify(checked); !status.ok()) {
      return status;
    }
    if (checked == 0) {
      return absl::InvalidArgumentError(
          "--verify needs resid_pre, attn_out and resid_mid, or resid_mid, "
          "mlp_out and resid_post, in f32");
    }
    std::cerr << "verified " << checked << " row identities exactly\n";
  }
  HooksByPoint by_hook;
  for (const v1::HookPointInfo& hook : hooks->hooks()) {
    by_hook[hook.hook()] = hook;
  }
  if (!options.html.empty()) {
    if (absl::Status status = WritePage(client, trace, by_hook, options.html);
        !status.ok()) {
      return status;
    }
  }
  if (options.capture.out.empty()) return absl::OkStatus();
  return Save(trace, by_hook, options.capture.out);
}

}  // namespace headrace::cli
