// Runs a fuzzer's entry over its seeds and many mutations of them, the same
// ones on every machine. The entry dies, or a sanitizer speaks, on a fault.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/files.h"

namespace headrace {
namespace {

constexpr int kMutantsPerSeed = 4000;

void RunEntry(std::string_view input) {
  // A copy of exactly this size, so that reading past it is noticed.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  EXPECT_EQ(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()), 0);
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string Mutate(std::string input) {
    const uint64_t mutations = 1 + Below(6);
    for (uint64_t i = 0; i < mutations; ++i) MutateOnce(input);
    return input;
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % std::max(limit, 1ul); }

  // Numbers at which counts, sizes and offsets break.
  uint64_t Number(size_t size) {
    constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
    const uint64_t numbers[] = {
        0,         1,         2,         3,           8,          9,
        255,       size,      1u << 31,  kMax >> 33,  kMax >> 32, kMax,
        kMax >> 1, kMax - 31, random_(), Below(size), 1ull << 62, 1ull << 32};
    return numbers[Below(std::size(numbers))];
  }

  void MutateOnce(std::string& input) {
    const size_t at = Below(input.size());
    const size_t length = std::min<size_t>(Below(32), input.size() - at);
    switch (Below(8)) {
      case 0:
        if (!input.empty()) input[at] ^= static_cast<char>(1 << Below(8));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(Number(at));
        break;
      case 2:
      case 3:
        Overwrite(input, at, Below(2) == 0 ? 4 : 8);
        break;
      case 4:
        input.resize(at);
        break;
      case 5:
        input.erase(at, length);
        break;
      case 6:
        input.insert(Below(input.size()), input.substr(at, length));
        break;
      case 7:
        Splice(input, at);
        break;
    }
  }

  void Overwrite(std::string& input, size_t at, size_t width) {
    if (at + width > input.size()) return;
    const uint64_t number = Number(input.size());
    input.replace(at, width, reinterpret_cast<const char*>(&number), width);
  }

  void Splice(std::string& input, size_t at) {
    const std::string& other = seeds_[Below(seeds_.size())];
    input = input.substr(0, at) + other.substr(Below(other.size()));
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_{20240229};
};

TEST(FuzzTest, HoldsForItsSeedsAndEveryCutOfThem) {
  for (const std::string& seed : FuzzSeeds()) {
    for (size_t size = 0; size <= seed.size(); ++size) {
      RunEntry(std::string_view(seed).substr(0, size));
    }
  }
}

TEST(FuzzTest, HoldsForMutatedSeeds) {
  const std::vector<std::string> seeds = FuzzSeeds();
  Mutator mutator(seeds);
  for (const std::string& seed : seeds) {
    for (int i = 0; i < kMutantsPerSeed; ++i) RunEntry(mutator.Mutate(seed));
  }
}

// For libFuzzer: HEADRACE_FUZZ_SEEDS=DIR ./gguf_fuzz_test fills DIR.
TEST(FuzzTest, WritesItsSeedsWhereItIsTold) {
  const char* folder = std::getenv("HEADRACE_FUZZ_SEEDS");
  if (folder == nullptr) GTEST_SKIP() << "HEADRACE_FUZZ_SEEDS is not set";
  const std::vector<std::string> seeds = FuzzSeeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    WriteFile(std::string(folder) + "/seed" + std::to_string(i), seeds[i]);
  }
}

}  // namespace
}  // namespace headrace
