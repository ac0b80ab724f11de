// headrace context-report: what each context extension costs, as the mean loss
// by position over a text.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/html_page.h"
#include "client/cli/html_pages.h"
#include "client/cli/request_builder.h"
#include "nlohmann/json.hpp"

namespace headrace::cli {
namespace {

constexpr int kBuckets = 16;
constexpr int kBarWidth = 40;

struct Curve {
  std::string method;
  std::string note;                  // why there is no curve
  std::vector<double> mean_loss;     // nats, per bucket of positions
  std::vector<uint32_t> bucket_end;  // exclusive
};

// Losses of every position but the first under one method.
absl::StatusOr<std::vector<double>> Losses(client::Client& client,
                                           const CliOptions& options,
                                           const std::string& method) {
  CliOptions with_method = options;
  with_method.rope.scaling = method;
  v1::GenerateRequest prompt;
  if (absl::Status status = SetPrompt(options, prompt); !status.ok()) {
    return status;
  }
  v1::ForwardRequest request;
  request.set_model(options.model);
  if (prompt.has_tokens()) {
    *request.mutable_tokens() = prompt.tokens();
  } else {
    request.set_text(prompt.text());
  }
  request.mutable_logprobs()->set_prompt(true);
  if (absl::Status status = SetContextExtension(
          with_method.rope, *request.mutable_context_extension());
      !status.ok()) {
    return status;
  }
  const auto stream = client.Forward(request);
  std::vector<double> losses;
  while (std::optional<v1::ForwardResponse> event = stream->Next()) {
    if (event->has_logprobs()) {
      losses.push_back(-event->logprobs().token().logprob());
    }
  }
  if (absl::Status status = stream->Finish(); !status.ok()) return status;
  return losses;
}

Curve Bucket(const std::string& method, const std::vector<double>& losses) {
  Curve curve{.method = method, .note = "", .mean_loss = {}, .bucket_end = {}};
  const size_t buckets = std::min<size_t>(kBuckets, losses.size());
  for (size_t b = 0; b < buckets; ++b) {
    const size_t begin = losses.size() * b / buckets;
    const size_t end = losses.size() * (b + 1) / buckets;
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += losses[i];
    curve.mean_loss.push_back(sum / static_cast<double>(end - begin));
    curve.bucket_end.push_back(static_cast<uint32_t>(end + 1));
  }
  return curve;
}

void Print(const std::vector<Curve>& curves) {
  double worst = 1e-9;
  for (const Curve& curve : curves) {
    for (const double loss : curve.mean_loss) worst = std::max(worst, loss);
  }
  for (const Curve& curve : curves) {
    std::cout << curve.method << "\n";
    if (!curve.note.empty()) std::cout << "  " << curve.note << "\n";
    for (size_t b = 0; b < curve.mean_loss.size(); ++b) {
      const int bar =
          static_cast<int>(std::lround(curve.mean_loss[b] / worst * kBarWidth));
      std::cout << absl::StrFormat("  to %6d  %8.4f  %s\n", curve.bucket_end[b],
                                   curve.mean_loss[b],
                                   std::string(static_cast<size_t>(bar), '#'));
    }
  }
}

}  // namespace

absl::Status RunContextReport(client::Client& client,
                              const CliOptions& options) {
  if (options.methods.empty()) {
    return absl::InvalidArgumentError(
        "give --methods: none, linear, ntk, yarn, …, by commas");
  }
  std::vector<Curve> curves;
  for (const std::string& method : options.methods) {
    const auto losses = Losses(client, options, method);
    if (losses.ok()) {
      curves.push_back(Bucket(method, *losses));
    } else if (losses.status().code() == absl::StatusCode::kInvalidArgument &&
               options.methods.size() > 1) {
      // A method that cannot reach so far is a result, not a failure.
      curves.push_back({.method = method,
                        .note = std::string(losses.status().message()),
                        .mean_loss = {},
                        .bucket_end = {}});
    } else {
      return losses.status();
    }
  }
  if (!options.json && options.html.empty()) {
    Print(curves);
    return absl::OkStatus();
  }
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Curve& curve : curves) {
    out.push_back({{"method", curve.method},
                   {"note", curve.note},
                   {"mean_loss", curve.mean_loss},
                   {"bucket_end", curve.bucket_end}});
  }
  if (!options.html.empty()) {
    return WriteHtmlPage(kContextReportPage, out.dump(), options.html);
  }
  std::cout << out.dump() << "\n" << std::flush;
  return absl::OkStatus();
}

}  // namespace headrace::cli
