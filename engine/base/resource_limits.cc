#include "engine/base/resource_limits.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace headrace {
namespace {

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first number of a one-line file; nullopt for "max" or no file.
std::optional<int64_t> ReadNumber(const std::string& path) {
  const std::optional<std::string> text = ReadFile(path);
  if (!text.has_value()) return std::nullopt;
  int64_t value = 0;
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &value)) {
    return std::nullopt;
  }
  return value;
}

// Folder of this process in the hierarchy whose controllers include
// `controller` ("" is version 2's), from /proc/self/cgroup.
std::string CgroupPath(const std::string& proc_text,
                       absl::string_view controller) {
  for (const absl::string_view line : absl::StrSplit(proc_text, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (controller.empty() ? fields[1].empty() : [&] {
          for (const absl::string_view name : absl::StrSplit(fields[1], ',')) {
            if (name == controller) return true;
          }
          return false;
        }()) {
      return std::string(fields[2]);
    }
  }
  return "/";
}

// `path` and every folder above it, up to the mount.
std::vector<std::string> PathAndAncestors(const std::string& mount,
                                          std::string path) {
  std::vector<std::string> folders;
  while (path.size() > 1) {
    folders.push_back(absl::StrCat(mount, path));
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

struct Quota {
  double cores = std::numeric_limits<double>::infinity();
  int64_t memory = std::numeric_limits<int64_t>::max();
};

void TakeVersion2(const std::string& root, const std::string& proc_text,
                  Quota& quota) {
  const std::string mount = absl::StrCat(root, "/sys/fs/cgroup");
  for (const std::string& folder :
       PathAndAncestors(mount, CgroupPath(proc_text, ""))) {
    if (const auto text = ReadFile(folder + "/cpu.max"); text.has_value()) {
      const std::vector<absl::string_view> fields =
          absl::StrSplit(absl::StripAsciiWhitespace(*text), ' ');
      double limit = 0;
      double period = 0;
      if (fields.size() == 2 && absl::SimpleAtod(fields[0], &limit) &&
          absl::SimpleAtod(fields[1], &period) && period > 0) {
        quota.cores = std::min(quota.cores, limit / period);
      }
    }
    if (const auto bytes = ReadNumber(folder + "/memory.max")) {
      quota.memory = std::min(quota.memory, *bytes);
    }
  }
}

void TakeVersion1(const std::string& root, const std::string& proc_text,
                  Quota& quota) {
  const std::string mount = absl::StrCat(root, "/sys/fs/cgroup");
  for (const std::string& folder :
       PathAndAncestors(mount + "/cpu", CgroupPath(proc_text, "cpu"))) {
    const auto limit = ReadNumber(folder + "/cpu.cfs_quota_us");
    const auto period = ReadNumber(folder + "/cpu.cfs_period_us");
    if (limit.value_or(-1) > 0 && period.value_or(0) > 0) {
      quota.cores = std::min(quota.cores, static_cast<double>(*limit) /
                                              static_cast<double>(*period));
    }
  }
  for (const std::string& folder :
       PathAndAncestors(mount + "/memory", CgroupPath(proc_text, "memory"))) {
    if (const auto bytes = ReadNumber(folder + "/memory.limit_in_bytes")) {
      quota.memory = std::min(quota.memory, *bytes);
    }
  }
}

int64_t MachineMemory(const std::string& root) {
  const auto text = ReadFile(root + "/proc/meminfo");
  for (const absl::string_view line : absl::StrSplit(text.value_or(""), '\n')) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "MemTotal:")) continue;
    int64_t kib = 0;
    rest = absl::StripAsciiWhitespace(rest);
    absl::ConsumeSuffix(&rest, "kB");
    if (absl::SimpleAtoi(absl::StripAsciiWhitespace(rest), &kib)) {
      return kib * 1024;
    }
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

ResourceLimits ReadResourceLimits(const ResourceLimitSources& sources) {
  const std::string proc_text =
      ReadFile(sources.root + "/proc/self/cgroup").value_or("");
  Quota quota;
  TakeVersion2(sources.root, proc_text, quota);
  TakeVersion1(sources.root, proc_text, quota);
  ResourceLimits limits;
  const double cores =
      std::min(static_cast<double>(sources.affinity_cores), quota.cores);
  limits.cores = std::max(1, static_cast<int>(std::floor(cores)));
  limits.has_cpu_quota = std::isfinite(quota.cores);
  limits.memory_bytes = std::min(quota.memory, MachineMemory(sources.root));
  return limits;
}

ResourceLimits ReadResourceLimits() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const bool known = sched_getaffinity(0, sizeof(mask), &mask) == 0;
  return ReadResourceLimits(
      {.root = "", .affinity_cores = known ? CPU_COUNT(&mask) : 1});
}

}  // namespace headrace
