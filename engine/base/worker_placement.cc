#include "engine/base/worker_placement.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace headrace {
namespace {

// "0-3,8,10-11", as the kernel writes lists; nullopt for what is none.
std::optional<std::vector<int>> ParseList(absl::string_view text) {
  std::vector<int> numbers;
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return numbers;
  for (const absl::string_view range : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(range, '-');
    int first = 0;
    int last = 0;
    if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) ||
        !absl::SimpleAtoi(ends.back(), &last) || first < 0 ||
        last >= CPU_SETSIZE) {
      return std::nullopt;
    }
    for (int i = first; i <= last; ++i) numbers.push_back(i);
  }
  return numbers;
}

std::vector<int> ReadList(const std::string& path) {
  const std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return ParseList(text.str()).value_or(std::vector<int>());
}

// The usable cores of each node that has any.
std::vector<std::vector<int>> ReadNodes(const PlacementSources& sources) {
  const std::string folder = sources.root + "/sys/devices/system/node";
  std::vector<std::vector<int>> nodes;
  for (const int node : ReadList(folder + "/online")) {
    std::vector<int> usable;
    for (const int core :
         ReadList(absl::StrCat(folder, "/node", node, "/cpulist"))) {
      if (std::count(sources.affinity_cores.begin(),
                     sources.affinity_cores.end(), core) > 0) {
        usable.push_back(core);
      }
    }
    if (!usable.empty()) nodes.push_back(std::move(usable));
  }
  return nodes;
}

// Where the calling thread may run.
std::vector<int> AffinityCores() {
  std::vector<int> cores;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

void SetPolicy(int policy) {
  const sched_param no_priority = {};
  sched_setscheduler(0, policy, &no_priority);
}

WorkerPlacement CoreForEach(const std::vector<std::vector<int>>& nodes) {
  WorkerPlacement placement;
  for (const std::vector<int>& node : nodes) {
    for (const int core : node) placement.cores_of_thread.push_back({core});
  }
  return placement;
}

WorkerPlacement NodeForEach(const std::vector<std::vector<int>>& nodes,
                            int num_threads) {
  std::vector<const std::vector<int>*> node_of_core;
  for (const std::vector<int>& node : nodes) {
    node_of_core.insert(node_of_core.end(), node.size(), &node);
  }
  WorkerPlacement placement;
  for (int thread = 0; thread < num_threads; ++thread) {
    // The middle of the thread's share of the cores.
    const size_t core = static_cast<size_t>(2 * thread + 1) *
                        node_of_core.size() /
                        static_cast<size_t>(2 * num_threads);
    placement.cores_of_thread.push_back(*node_of_core[core]);
  }
  return placement;
}

}  // namespace

std::vector<int> WorkerPlacement::CoresBesideFirst() const {
  std::vector<int> cores;
  for (size_t i = 1; i < cores_of_thread.size(); ++i) {
    if (cores_of_thread[i].size() != 1) return {};
    cores.push_back(cores_of_thread[i].front());
  }
  return cores;
}

const char* WorkerPlacement::Words() const {
  if (cores_of_thread.empty()) return "";
  return CoresBesideFirst().empty() ? ", each on its memory node"
                                    : ", each on a core of its own";
}

WorkerPlacement PlaceWorkers(int num_threads, const PlacementSources& sources) {
  if (sources.has_cpu_quota || num_threads < 2) return {};
  std::vector<std::vector<int>> nodes = ReadNodes(sources);
  // Not every system tells.
  if (nodes.empty()) nodes.push_back(sources.affinity_cores);
  size_t num_cores = 0;
  for (const std::vector<int>& node : nodes) num_cores += node.size();
  if (static_cast<size_t>(num_threads) > num_cores) return {};
  if (static_cast<size_t>(num_threads) == num_cores) return CoreForEach(nodes);
  if (nodes.size() < 2) return {};
  return NodeForEach(nodes, num_threads);
}

WorkerPlacement PlaceWorkers(int num_threads, bool has_cpu_quota) {
  return PlaceWorkers(num_threads, {.root = "",
                                    .affinity_cores = AffinityCores(),
                                    .has_cpu_quota = has_cpu_quota});
}

void StayOn(const std::vector<int>& cores) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int core : cores) CPU_SET(core, &mask);
  sched_setaffinity(0, sizeof(mask), &mask);
}

StartThreadsThatGiveWay::StartThreadsThatGiveWay(const std::vector<int>& cores)
    : cores_before_(cores.empty() ? cores : AffinityCores()),
      policy_before_(sched_getscheduler(0)) {
  if (cores.empty()) return;
  StayOn(cores);
  // Whoever was given another policy was given it on purpose.
  if (policy_before_ == SCHED_OTHER) SetPolicy(SCHED_BATCH);
}

StartThreadsThatGiveWay::~StartThreadsThatGiveWay() {
  if (cores_before_.empty()) return;
  StayOn(cores_before_);
  if (policy_before_ == SCHED_OTHER) SetPolicy(SCHED_OTHER);
}

}  // namespace headrace
