// headrace lens: what the model would predict if it stopped at each layer.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/html_page.h"
#include "client/cli/html_pages.h"
#include "client/cli/lens_report.h"
#include "client/cli/request_builder.h"

namespace headrace::cli {
namespace {

constexpr uint32_t kTopK = 5;
constexpr size_t kColumns = 6;  // positions that fit a terminal
constexpr size_t kCellWidth = 12;

// A token as one short word of printable characters.
std::string Cell(const std::string& piece) {
  std::string word;
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      word += "\\n";
    } else if (c == ' ') {
      word += "_";
    } else if (byte < 0x20 || byte >= 0x7F) {
      absl::StrAppendFormat(&word, "\\x%02x", byte);
    } else {
      word += c;
    }
  }
  if (word.size() > kCellWidth - 1) {
    word.resize(kCellWidth - 2);
    word += "~";
  }
  return absl::StrFormat("%-*s", static_cast<int>(kCellWidth), word);
}

void PrintTable(const LensReport& report) {
  const size_t positions = report.tokens.size();
  const size_t first = positions - std::min(positions, kColumns);
  std::cout << absl::StrFormat("%-6s", "layer");
  for (size_t p = first; p < positions; ++p) {
    std::cout << Cell(report.tokens[p].piece);
  }
  std::cout << "\n";
  for (int64_t layer = report.num_layers - 1; layer >= 0; --layer) {
    std::cout << absl::StrFormat("%-6d", layer);
    for (size_t p = first; p < positions; ++p) {
      std::cout << Cell(report.predictions.at({layer, static_cast<int64_t>(p)})
                            .front()
                            .piece);
    }
    std::cout << "\n";
  }
}

void PrintAttribution(const LensReport& report) {
  std::vector<LogitPart> parts = report.parts;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const LogitPart& a, const LogitPart& b) {
                     return std::abs(a.value) > std::abs(b.value);
                   });
  parts.resize(std::min<size_t>(parts.size(), 8));
  std::cout << absl::StrFormat(
      "\nlogit %.4f of '%s' after the last position, "
      "mostly from:\n",
      report.logit, report.chosen.piece);
  for (const LogitPart& part : parts) {
    std::cout << absl::StrFormat("  %-10s %+9.4f\n", part.name, part.value);
  }
}

}  // namespace

absl::Status RunLens(client::Client& client, const CliOptions& options) {
  absl::StatusOr<v1::GenerateRequest> request = BuildGenerateRequest(options);
  if (!request.ok()) return request.status();
  if (absl::Status status = SetPrompt(options, *request); !status.ok()) {
    return status;
  }
  // A lens is of the prompt unless tokens are asked for.
  if (!request->stop().has_max_tokens()) {
    request->mutable_stop()->set_max_tokens(0);
  }
  const absl::StatusOr<LensReport> report = GatherLens(client, *request, kTopK);
  if (!report.ok()) return report.status();
  if (!options.html.empty()) {
    return WriteHtmlPage(kLensPage, ToJson(*report), options.html);
  }
  if (options.json) {
    std::cout << ToJson(*report) << "\n" << std::flush;
    return absl::OkStatus();
  }
  PrintTable(*report);
  PrintAttribution(*report);
  std::cout << std::flush;
  return absl::OkStatus();
}

}  // namespace headrace::cli
