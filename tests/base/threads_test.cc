#include "base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace ingot {
namespace {

namespace fs = std::filesystem;

TEST(ThreadPool, RunsEveryThreadOnceARegion) {
  for (const int size : {1, 2, 5}) {
    ThreadPool pool(size);
    EXPECT_EQ(pool.size(), size);
    std::vector<int> calls(static_cast<std::size_t>(size), 0);
    const int regions = 2000;
    for (int i = 0; i < regions; ++i)
      pool.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
    for (const int n : calls) EXPECT_EQ(n, regions);
  }
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  for (int round = 0; round < 200; ++round) {
    std::vector<int> left(kThreads, 0);
    std::vector<int> sums(kThreads, 0);
    std::atomic<bool> torn{false};
    pool.run([&](int thread) {
      const auto me = static_cast<std::size_t>(thread);
      for (int phase = 1; phase <= 4; ++phase) {
        left[me] = phase;
        pool.barrier();
        for (const int other : left) {
          if (other != phase) torn = true;
          sums[me] += other;
        }
        pool.barrier();
      }
    });
    ASSERT_FALSE(torn);
    for (const int sum : sums) ASSERT_EQ(sum, kThreads * (1 + 2 + 3 + 4));
  }
}

TEST(ThreadPool, SleepingThreadsWakeUp) {
  ThreadPool pool(3);
  for (int i = 0; i < 5; ++i) {
    ::usleep(3000);  // far past the spin: everyone sleeps
    std::atomic<int> calls{0};
    pool.run([&](int thread) {
      if (thread == 1) ::usleep(2000);  // the others sleep at the end of the region
      ++calls;
    });
    EXPECT_EQ(calls, 3);
  }
}

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (int i = 0; i < 20; ++i) ThreadPool pool(4);
}

TEST(StaticSplit, CoversTheRangeInOrder) {
  for (const std::int64_t count : {0, 1, 7, 64, 1000001}) {
    for (const int parts : {1, 2, 3, 16}) {
      std::int64_t at = 0;
      for (int i = 0; i < parts; ++i) {
        const auto [begin, end] = static_split(count, parts, i);
        ASSERT_EQ(begin, at);
        ASSERT_GE(end - begin, count / parts);
        ASSERT_LE(end - begin, count / parts + 1);
        at = end;
      }
      ASSERT_EQ(at, count);
    }
  }
}

// A made-up /sys and /proc. The affinity mask is the real one.
struct UsableCpus : testing::Test {
  UsableCpus() {
    std::string name = (fs::temp_directory_path() / "ingot-root-XXXXXX").string();
    root = ::mkdtemp(name.data());
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  ~UsableCpus() override {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }
  void write(const std::string& path, const std::string& line) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << line << "\n";
  }
  // Gives each allowed CPU the package and core that f says.
  void topology(const std::function<std::pair<int, int>(int)>& f) {
    for (const int cpu : cpus) {
      const auto [package, core] = f(cpu);
      const std::string base = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      write(base + "physical_package_id", std::to_string(package));
      write(base + "core_id", std::to_string(core));
    }
  }
  int usable() const { return usable_cpus(root.string() + "/"); }
  int allowed() const { return static_cast<int>(cpus.size()); }

  fs::path root;
  std::vector<int> cpus;
};

TEST_F(UsableCpus, WithoutTopologyEveryCpuIsACore) {
  EXPECT_EQ(usable(), allowed());
}

TEST_F(UsableCpus, SiblingsShareACore) {
  topology([](int) { return std::pair(0, 0); });
  EXPECT_EQ(usable(), 1);
  EXPECT_EQ(allowed_cpus(root.string() + "/"), allowed());
  write("sys/fs/cgroup/cpu.max", "100000 100000");
  EXPECT_EQ(allowed_cpus(root.string() + "/"), 1);
}

TEST_F(UsableCpus, CoresOfTwoPackagesMayHaveOneNumberAndInterleave) {
  topology([](int cpu) { return std::pair(cpu % 2, cpu / 2); });
  EXPECT_EQ(usable(), allowed());
  // The same core numbers in different packages are different cores.
  topology([this](int cpu) { return std::pair(cpu == cpus.front() ? 0 : 1, 7); });
  EXPECT_EQ(usable(), std::min(allowed(), 2));
}

TEST_F(UsableCpus, QuotaOfControlGroupsVersion2) {
  write("sys/fs/cgroup/cpu.max", "max 100000");
  EXPECT_EQ(usable(), allowed());
  write("sys/fs/cgroup/cpu.max", "100000 100000");
  EXPECT_EQ(usable(), 1);
  write("sys/fs/cgroup/cpu.max", "1000 100000");
  EXPECT_EQ(usable(), 1) << "never less than one";
  write("sys/fs/cgroup/cpu.max", "6400000 100000");
  EXPECT_EQ(usable(), std::min(allowed(), 64)) << "a quota adds no CPUs";
  for (const char* odd : {"", "rubbish", "100000", "-5 100000", "100000 0"}) {
    write("sys/fs/cgroup/cpu.max", odd);
    EXPECT_EQ(usable(), allowed()) << odd;
  }
}

TEST_F(UsableCpus, QuotaOfControlGroupsVersion1) {
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "50000");
  EXPECT_EQ(usable(), 1);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(usable(), allowed());
}

TEST_F(UsableCpus, QuotaOfTheGroupThisProcessIsIn) {
  // Outside a container the root has no quota, a service's own group or one above it may.
  write("proc/self/cgroup", "0::/system.slice/ingot.service");
  EXPECT_EQ(usable(), allowed());
  write("sys/fs/cgroup/system.slice/ingot.service/cpu.max", "max 100000");
  write("sys/fs/cgroup/system.slice/cpu.max", "100000 100000");
  EXPECT_EQ(usable(), 1);
  write("sys/fs/cgroup/system.slice/cpu.max", "max 100000");
  write("sys/fs/cgroup/system.slice/ingot.service/cpu.max", "90000 100000");
  EXPECT_EQ(usable(), 1);
}

}  // namespace
}  // namespace ingot
