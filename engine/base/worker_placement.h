// Where the threads of a team run. A team as large as the machine has a core
// for each thread: the system would at times put two on one, beside a third
// that is busy for a moment. On machines with several memory nodes a smaller
// team's threads stay on a node each, so that what they touch first stays near.
#ifndef HEADRACE_ENGINE_BASE_WORKER_PLACEMENT_H_
#define HEADRACE_ENGINE_BASE_WORKER_PLACEMENT_H_

#include <string>
#include <vector>

namespace headrace {

// The cores that each thread may use; empty: wherever the system likes.
struct WorkerPlacement {
  // Where each thread has a core of its own: all but the first thread's. What
  // runs beside the team is best kept to them: the first thread is the caller,
  // without which nothing goes on. Empty otherwise.
  std::vector<int> CoresBesideFirst() const;

  // For a log, after the number of threads.
  const char* Words() const;

  std::vector<std::vector<int>> cores_of_thread;
};

// Where the facts are read; replaced in tests.
struct PlacementSources {
  std::string root;                 // prefix of /sys
  std::vector<int> affinity_cores;  // numbers of the cores that may be used
  bool has_cpu_quota = false;
};

// As many threads as cores: one on each. Fewer: they are dealt out to the nodes
// in proportion to the cores that may be used there, neighbours together; empty
// on a machine of one node. Empty as well for more threads than cores, and
// under a CPU quota: a thread that has to wait for its cores would use it up.
WorkerPlacement PlaceWorkers(int num_threads, const PlacementSources& sources);

// Of this process.
WorkerPlacement PlaceWorkers(int num_threads, bool has_cpu_quota);

// Keeps the calling thread on its cores. A hint; failure is harmless.
void StayOn(const std::vector<int>& cores);

// Threads that are started in its lifetime, by the thread that made it, stay on
// `cores` and give way to a team's threads there: one that is woken waits until
// the thread that runs pauses, as a worker does between its tasks. In the
// middle of a task it would hold up the whole region. Linux's SCHED_BATCH; a
// hint as well. No cores: nothing changes.
class StartThreadsThatGiveWay {
 public:
  explicit StartThreadsThatGiveWay(const std::vector<int>& cores);
  ~StartThreadsThatGiveWay();
  StartThreadsThatGiveWay(const StartThreadsThatGiveWay&) = delete;
  StartThreadsThatGiveWay& operator=(const StartThreadsThatGiveWay&) = delete;

 private:
  const std::vector<int> cores_before_;  // empty: nothing changed
  const int policy_before_;              // of sched_setscheduler()
};

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_WORKER_PLACEMENT_H_
