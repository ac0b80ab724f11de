// What this process may use: cores and memory, as affinity and cgroups (v1 and
// v2) allow. A container's limit counts, not the host's size.
#ifndef HEADRACE_ENGINE_BASE_RESOURCE_LIMITS_H_
#define HEADRACE_ENGINE_BASE_RESOURCE_LIMITS_H_

#include <cstdint>
#include <string>

namespace headrace {

struct ResourceLimits {
  // Compute threads: as many as asked for; 0: one for each core.
  int ThreadsFor(int requested) const {
    return requested > 0 ? requested : cores;
  }

  // Whole cores: affinity and CPU quota, the quota rounded down; at least 1.
  int cores = 1;
  // Bytes that this process may still come to hold: the least of every cgroup
  // limit on the path and the machine's memory.
  int64_t memory_bytes = 0;
  // Whether a CPU quota is in force, which any core may use up.
  bool has_cpu_quota = false;
};

// Where the facts are read; replaced in tests.
struct ResourceLimitSources {
  std::string root;    // prefix of /proc and /sys/fs/cgroup
  int affinity_cores;  // cores in the affinity mask
};

// Reads the limits of this process.
ResourceLimits ReadResourceLimits();
ResourceLimits ReadResourceLimits(const ResourceLimitSources& sources);

}  // namespace headrace

#endif  // HEADRACE_ENGINE_BASE_RESOURCE_LIMITS_H_
