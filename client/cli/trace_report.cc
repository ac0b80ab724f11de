#include "client/cli/trace_report.h"

#include <cmath>
#include <cstdint>
#include <utility>

#include "client/cli/token_pieces.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

double Dot(const ActivationArray& a, const ActivationArray& b, int64_t row) {
  double sum = 0;
  for (int64_t i = 0; i < a.width; ++i) {
    sum += static_cast<double>(a.row(row)[i]) * b.row(row)[i];
  }
  return sum;
}

// The arrays of one hook, by layer.
using Layers = std::vector<std::pair<int64_t, const ActivationArray*>>;

// [layer][layer], of one row.
Json Cosines(const Layers& layers, int64_t row) {
  Json cosines = Json::array();
  for (const auto& [a_layer, a] : layers) {
    Json line = Json::array();
    for (const auto& [b_layer, b] : layers) {
      const double size = std::sqrt(Dot(*a, *a, row) * Dot(*b, *b, row));
      line.push_back(size > 0 ? Dot(*a, *b, row) / size : 0.0);
    }
    cosines.push_back(std::move(line));
  }
  return cosines;
}

Json HookJson(const std::string& name, const Layers& layers) {
  const ActivationArray& first = *layers.front().second;
  Json numbers = Json::array();
  Json norms = Json::array();
  for (const auto& [layer, array] : layers) {
    if (layer < 0) {
      numbers.push_back("");
    } else {
      numbers.push_back(layer);
    }
    Json line = Json::array();
    for (int64_t row = 0; row < array->rows(); ++row) {
      line.push_back(std::sqrt(Dot(*array, *array, row)));
    }
    norms.push_back(std::move(line));
  }
  Json cosines = Json::array();
  for (int64_t row = 0; row < first.rows(); ++row) {
    cosines.push_back(Cosines(layers, row));
  }
  return {{"name", name},
          {"layers", std::move(numbers)},
          {"positions", first.positions},
          {"norms", std::move(norms)},
          {"cosines", std::move(cosines)}};
}

}  // namespace

std::string TraceJson(const v1::Header& header,
                      const std::vector<std::string>& pieces,
                      const ActivationTable& activations,
                      const std::map<v1::HookPoint, v1::HookPointInfo>& hooks) {
  std::map<v1::HookPoint, Layers> by_hook;
  for (const auto& [key, array] : activations.arrays()) {
    by_hook[key.first].emplace_back(key.second, &array);
  }
  Json tokens = Json::array();
  for (const std::string& piece : pieces) {
    tokens.push_back({{"text", ReadableText(piece)}});
  }
  Json shown = Json::array();
  for (const auto& [hook, layers] : by_hook) {
    shown.push_back(HookJson(hooks.at(hook).name(), layers));
  }
  const Json out = {{"model", header.model()},
                    {"build", header.build()},
                    {"tokens", std::move(tokens)},
                    {"hooks", std::move(shown)}};
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace headrace::cli
