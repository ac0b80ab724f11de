#include "engine/base/resource_limits.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/testing/files.h"

namespace headrace {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

class ResourceLimitsTest : public ::testing::Test {
 protected:
  ResourceLimitsTest() {
    Put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");
  }
  void Put(const std::string& path, const std::string& text) {
    WriteFile(folder_.path() + path, text);
  }
  ResourceLimits Read(int affinity_cores) const {
    return ReadResourceLimits(
        {.root = folder_.path(), .affinity_cores = affinity_cores});
  }
  TempFolder folder_;
};

TEST_F(ResourceLimitsTest, WithoutCgroupsTheMachineCounts) {
  const ResourceLimits limits = Read(6);

  EXPECT_EQ(limits.cores, 6);
  EXPECT_FALSE(limits.has_cpu_quota);
  EXPECT_EQ(limits.memory_bytes, 16 * kGiB);
}

TEST_F(ResourceLimitsTest, Version2QuotaIsRoundedDown) {
  Put("/proc/self/cgroup", "0::/pod/app\n");
  Put("/sys/fs/cgroup/pod/app/cpu.max", "350000 100000\n");
  Put("/sys/fs/cgroup/pod/app/memory.max", "2147483648\n");

  const ResourceLimits limits = Read(64);

  EXPECT_EQ(limits.cores, 3);
  EXPECT_TRUE(limits.has_cpu_quota);
  EXPECT_EQ(limits.memory_bytes, 2 * kGiB);
}

TEST_F(ResourceLimitsTest, TheTightestFolderOnThePathCounts) {
  Put("/proc/self/cgroup", "0::/pod/app\n");
  Put("/sys/fs/cgroup/pod/cpu.max", "200000 100000\n");
  Put("/sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
  Put("/sys/fs/cgroup/pod/memory.max", "1073741824\n");
  Put("/sys/fs/cgroup/pod/app/memory.max", "max\n");

  const ResourceLimits limits = Read(64);

  EXPECT_EQ(limits.cores, 2);
  EXPECT_EQ(limits.memory_bytes, kGiB);
}

TEST_F(ResourceLimitsTest, Version1IsRead) {
  Put("/proc/self/cgroup", "4:cpu,cpuacct:/app\n7:memory:/app\n");
  Put("/sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "250000\n");
  Put("/sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000\n");
  Put("/sys/fs/cgroup/memory/app/memory.limit_in_bytes", "3221225472\n");

  const ResourceLimits limits = Read(8);

  EXPECT_EQ(limits.cores, 2);
  EXPECT_EQ(limits.memory_bytes, 3 * kGiB);
}

TEST_F(ResourceLimitsTest, AQuotaBelowOneCoreLeavesOne) {
  Put("/proc/self/cgroup", "0::/\n");
  Put("/sys/fs/cgroup/cpu.max", "50000 100000\n");

  EXPECT_EQ(Read(4).cores, 1);
}

TEST_F(ResourceLimitsTest, UnlimitedVersion1IsTheMachine) {
  Put("/proc/self/cgroup", "4:cpu:/\n7:memory:/\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");

  const ResourceLimits limits = Read(4);

  EXPECT_EQ(limits.cores, 4);
  EXPECT_EQ(limits.memory_bytes, 16 * kGiB);
}

}  // namespace
}  // namespace headrace
