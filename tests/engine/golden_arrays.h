// Numbers that an independent implementation computed, as the scripts below
// tests/golden write them: NAME.json with NAME.bin beside it.
#ifndef HEADRACE_TESTS_ENGINE_GOLDEN_ARRAYS_H_
#define HEADRACE_TESTS_ENGINE_GOLDEN_ARRAYS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace headrace {

class GoldenArrays {
 public:
  // `name`: below tests/golden, without its suffix.
  explicit GoldenArrays(const std::string& name);

  // The float32 array that {"offset", "shape"} describe.
  std::span<const float> Array(const nlohmann::json& where) const;

  nlohmann::json json;

 private:
  std::vector<float> data_;
};

// The +-1 vectors of the scripts' splitmix_signs().
std::vector<double> Signs(int64_t count, uint64_t state);

// L2 norm.
double Norm(std::span<const float> row);

}  // namespace headrace

#endif  // HEADRACE_TESTS_ENGINE_GOLDEN_ARRAYS_H_
