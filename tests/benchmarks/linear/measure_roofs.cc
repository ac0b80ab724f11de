// Prints what this machine can do at the most as one JSON object:
//   measure_roofs [--threads N] [--windows N]
#include <algorithm>
#include <iostream>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "engine/base/resource_limits.h"
#include "engine/base/thread_team.h"
#include "tests/benchmarks/linear/roofs.h"

ABSL_FLAG(int, threads, 0, "Compute threads; 0: what the machine allows.");
ABSL_FLAG(int, windows, 400, "Windows of half a millisecond, of each roof.");

namespace headrace::benchmarks {
namespace {

// The 90th percentile: what the machine reaches when it is left alone.
double Roofline(RoofMeter& meter, Roof roof, int windows) {
  std::vector<double> rates;
  rates.reserve(static_cast<size_t>(windows));
  for (int i = 0; i < windows; ++i) rates.push_back(meter.Measure(roof));
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() * 9 / 10];
}

void Print() {
  const int threads = absl::GetFlag(FLAGS_threads) > 0
                          ? absl::GetFlag(FLAGS_threads)
                          : ReadResourceLimits().cores;
  ThreadTeam team(threads);
  RoofMeter meter(team);
  const int windows = std::max(10, absl::GetFlag(FLAGS_windows));
  std::cout << "{\"threads\":" << threads << ",\"read_bytes_per_second\":"
            << Roofline(meter, Roof::kRead, windows)
            << ",\"float_operations_per_second\":"
            << Roofline(meter, Roof::kFloat, windows)
            << ",\"int8_operations_per_second\":"
            << Roofline(meter, Roof::kInt8, windows) << "}" << std::endl;
}

}  // namespace
}  // namespace headrace::benchmarks

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  headrace::benchmarks::Print();
  return 0;
}
