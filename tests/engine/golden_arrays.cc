#include "tests/engine/golden_arrays.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

namespace headrace {

GoldenArrays::GoldenArrays(const std::string& name) {
  const std::string base = HEADRACE_SOURCE_DIR "/tests/golden/" + name;
  std::ifstream(base + ".json") >> json;
  std::ifstream file(base + ".bin", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string text = bytes.str();
  data_.resize(text.size() / sizeof(float));
  std::memcpy(data_.data(), text.data(), data_.size() * sizeof(float));
}

std::span<const float> GoldenArrays::Array(const nlohmann::json& where) const {
  size_t size = 1;
  for (const auto& dim : where["shape"]) size *= dim.get<size_t>();
  return std::span(data_).subspan(where["offset"].get<size_t>(), size);
}

// SplitMix64 by Sebastiano Vigna: the top bit of its outputs.
std::vector<double> Signs(int64_t count, uint64_t state) {
  std::vector<double> signs;
  for (int64_t i = 0; i < count; ++i) {
    state += 0x9E3779B97F4A7C15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    signs.push_back(((z ^ (z >> 31)) >> 63) != 0 ? 1.0 : -1.0);
  }
  return signs;
}

double Norm(std::span<const float> row) {
  double sum = 0;
  for (const float x : row) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

}  // namespace headrace
