// Random configurations against Hugging Face transformers, whose results
// tests/golden/rope/make_rope_goldens.py wrote down.
#include <fstream>
#include <string>
#include <vector>

#include "engine/rope/parse_hf.h"
#include "engine/rope/rope_params.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace headrace {
namespace {

TEST(TransformersGoldenTest, FrequenciesAndAttentionFactorAgree) {
  std::ifstream file(HEADRACE_SOURCE_DIR
                     "/tests/golden/data/rope/transformers_rope.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(file, line)) << "no golden data";
  int num_cases = 0;
  while (std::getline(file, line)) {
    SCOPED_TRACE(line);
    const auto golden = nlohmann::ordered_json::parse(line);
    const absl::StatusOr<ParsedRope> parsed =
        RopeParamsFromHfConfig(golden["config"]);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    const absl::StatusOr<EffectiveRope> rope =
        ResolveRope(parsed->params, RopePairing::kHalfSplit, golden["seq_len"]);
    ASSERT_TRUE(rope.ok()) << rope.status();

    // Both are float64; 14 digits are written down.
    const std::vector<double> expected = golden["inv_freqs"];
    ASSERT_EQ(rope->inv_freqs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(rope->inv_freqs[i], expected[i], 1e-12 * expected[i]) << i;
    }
    EXPECT_NEAR(rope->attention_factor,
                golden["attention_factor"].get<double>(), 1e-14);
    ++num_cases;
  }
  EXPECT_EQ(num_cases, 84);
}

}  // namespace
}  // namespace headrace
