// headrace vectors import: directions from a file to the server, which names
// each by the hash of its content.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/command.h"
#include "client/cli/direction_file.h"
#include "nlohmann/json.hpp"

namespace headrace::cli {
namespace {

absl::StatusOr<std::vector<int64_t>> ParseFeatures(const std::string& text) {
  std::vector<int64_t> features;
  for (const absl::string_view part :
       absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    if (!absl::SimpleAtoi(part, &features.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--features: \"", std::string(part), "\" is no number"));
    }
  }
  return features;
}

void Print(const Direction& direction, const v1::PutVectorResponse& put,
           bool json) {
  const bool by_layer = direction.layer >= 0;
  const std::string name = by_layer ? "layer" : "feature";
  const int64_t number = by_layer ? direction.layer : direction.feature;
  if (json) {
    std::cout << nlohmann::ordered_json{{name, number},
                                        {"width", direction.values.size()},
                                        {"sha256", put.sha256()},
                                        {"expires_in", put.expires_in()}}
                     .dump()
              << "\n";
  } else {
    std::cout << name << " " << number << "  " << put.sha256() << "\n";
  }
}

}  // namespace

absl::Status RunVectors(client::Client& client, const CliOptions& options) {
  if (options.positional.size() != 2 || options.positional[0] != "import") {
    return absl::InvalidArgumentError("usage: headrace vectors import FILE");
  }
  const auto features = ParseFeatures(options.vectors.features);
  if (!features.ok()) return features.status();
  const auto directions = ReadDirections(options.positional[1], *features);
  if (!directions.ok()) return directions.status();
  for (const Direction& direction : *directions) {
    v1::PutVectorRequest request;
    request.set_f32(direction.values.data(),
                    direction.values.size() * sizeof(float));
    if (options.vectors.time_to_live.has_value()) {
      request.set_time_to_live(*options.vectors.time_to_live);
    }
    const auto put = client.PutVector(request);
    if (!put.ok()) return put.status();
    Print(direction, *put, options.json);
  }
  return absl::OkStatus();
}

}  // namespace headrace::cli
