#include "engine/ops/residual_add.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/engine/ops/attention/elementwise_reference.h"

namespace headrace {
namespace {

using testing::NormalValues;

TEST(ResidualAddTest, IsOneFloat32AdditionEach) {
  ThreadTeam team(3);
  for (const int64_t n : {1, 5, 64, 577, 4096, 70000}) {
    const std::vector<float> before = NormalValues(n, 0, 100, 1);
    const std::vector<float> write = NormalValues(n, 0, 1, 2);
    std::vector<float> bus = before;
    AddToBus(team, bus.data(), write.data(), n);
    for (size_t i = 0; i < bus.size(); ++i) {
      ASSERT_EQ(bus[i], before[i] + write[i]);
    }
  }
}

TEST(ResidualAddTest, AScaledWriteIsWhatIsAdded) {
  const std::vector<float> write = NormalValues(577, 0, 1, 3);
  std::vector<float> scaled = write;
  ScaleWrite(scaled.data(), 0.22f, 577);
  for (size_t i = 0; i < write.size(); ++i) {
    ASSERT_EQ(scaled[i], write[i] * 0.22f);
  }
}

}  // namespace
}  // namespace headrace
