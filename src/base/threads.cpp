#include "base/threads.h"

#include "base/check.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace ingot {

namespace {

constexpr int kSpins = 2000;  // about 0.1 ms of pause instructions

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

constexpr int kNoQuota = 1 << 20;

int cpus_of(double quota, double period) {
  if (quota <= 0 || period <= 0) return kNoQuota;
  return std::max(1, static_cast<int>(std::min(quota / period + 0.5, double{kNoQuota})));
}

// cpu.max holds "max 100000" or "quota period" in microseconds.
int quota_of_group(const std::string& group) {
  std::istringstream line(first_line(group + "cpu.max"));
  std::string quota_text;
  double period = 0;
  if (!(line >> quota_text >> period) || quota_text == "max") return kNoQuota;
  double quota = -1;
  std::istringstream(quota_text) >> quota;
  return cpus_of(quota, period);
}

// The tightest quota of this process's group and those above it. In a container the group is the
// root; a service's is a path in /proc/self/cgroup ("0::/system.slice/x.service"). Version 1 of
// control groups keeps quota and period in two files.
int quota_cpus(const std::string& root) {
  const std::string top = root + "sys/fs/cgroup/";
  int cpus = quota_of_group(top);
  std::ifstream groups(root + "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    const std::string path = line.substr(4);
    for (std::size_t end = path.size(); end != 0 && end != std::string::npos;
         end = path.rfind('/', end - 1))
      cpus = std::min(cpus, quota_of_group(top + path.substr(0, end) + "/"));
  }
  double quota = -1;
  double period = 0;
  std::istringstream(first_line(top + "cpu/cpu.cfs_quota_us")) >> quota;
  std::istringstream(first_line(top + "cpu/cpu.cfs_period_us")) >> period;
  return std::min(cpus, cpus_of(quota, period));
}

// SMT siblings share the arithmetic units, so one thread a core is the default. A CPU without
// topology files counts as a core of its own.
int physical_cores(const std::string& root, const cpu_set_t& allowed) {
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string base =
        root + "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const std::string core = first_line(base + "core_id");
    const std::string package = first_line(base + "physical_package_id");
    cores.insert(core.empty() ? "cpu" + std::to_string(cpu) : package + ":" + core);
  }
  return static_cast<int>(cores.size());
}

cpu_set_t affinity() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
      CPU_SET(i, &allowed);
  }
  return allowed;
}

}  // namespace

int usable_cpus(const std::string& root) {
  return std::max(1, std::min(physical_cores(root, affinity()), quota_cpus(root)));
}

int allowed_cpus(const std::string& root) {
  const cpu_set_t allowed = affinity();
  return std::max(1, std::min(CPU_COUNT(&allowed), quota_cpus(root)));
}

ThreadPool::ThreadPool(int threads) : size_(threads) {
  check(threads >= 1, "a pool has at least one thread");
  for (int t = 1; t < threads; ++t) threads_.emplace_back([this, t] { worker(t); });
}

ThreadPool::~ThreadPool() {
  function_ = nullptr;
  start();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::run_region(void* context, Function function) {
  if (size_ == 1) return function(context, 0);
  context_ = context;
  function_ = function;
  start();
  function(context, 0);
  barrier();
}

void ThreadPool::barrier() {
  if (size_ == 1) return;
  const std::uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    wake(phase_);
  } else {
    wait(phase_, phase);
  }
}

void ThreadPool::wait(std::atomic<std::uint32_t>& word, std::uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    pause_briefly();
  }
  sleepers_.fetch_add(1);
  while (word.load() == old)
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, old, nullptr,
            nullptr, 0);
  sleepers_.fetch_sub(1);
}

void ThreadPool::wake(std::atomic<std::uint32_t>& word) {
  // A read-modify-write, so that it is ordered with the waiter's: a waiter that is not counted here
  // sees the new value of `word`. (A fence and a load would do, but ThreadSanitizer knows none.)
  if (sleepers_.fetch_add(0) > 0)
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, 1 << 30,
            nullptr, nullptr, 0);
}

void ThreadPool::start() {
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  wake(epoch_);
}

void ThreadPool::worker(int thread) {
  for (std::uint32_t seen = 0;;) {
    wait(epoch_, seen);
    ++seen;
    if (!function_) return;
    function_(context_, thread);
    barrier();
  }
}

}  // namespace ingot
