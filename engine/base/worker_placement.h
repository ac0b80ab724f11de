// Where the threads of a team run: on machines with several memory nodes each
// stays on one, so that what it touches first stays near.
#ifndef HEADRACE_ENGINE_BASE_WORKER_PLACEMENT_H_
#define HEADRACE_ENGINE_BASE_WORKER_PLACEMENT_H_

#include <string>
#include <vector>

namespace headrace {

// The cores that each thread may use; empty: wherever the system likes.
struct WorkerPlacement {
  std::vector<std::vector<int>> cores_of_thread;
};

// Where the facts are read; replaced in tests.
struct PlacementSources {
  std::string root;                 // prefix of /sys
  std::vector<int> affinity_cores;  // numbers of the cores that may be used
  bool has_cpu_quota = false;
};

// Threads are dealt out to the nodes in proportion to the cores that may be
// used there, neighbours together. Empty on a machine of one node, and under a
// CPU quota: a thread that has to wait for its cores would use it up.
WorkerPlacement PlaceWorkers(int num_threads, const PlacementSources& sources);

// Of this process.
WorkerPlacement PlaceWorkers(int num_threads, bool has_cpu_quota);

// Keeps the calling thread on its cores. A hint; failure is harmless.
void StayOn(const std::vector<int>& cores);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_WORKER_PLACEMENT_H_
