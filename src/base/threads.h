#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace ingot {

// CPUs this process may use: affinity mask, physical cores and the cgroup CPU quota, read below
// `root` ("/" but for tests). At least 1.
int usable_cpus(const std::string& root = "/");
// The same with every hardware thread of a core: threads beyond these only take turns.
int allowed_cpus(const std::string& root = "/");

// Threads that run one function together, each with its index. Waiting is a short spin (a step of a
// small model has over a hundred regions, so a kernel wake-up for each would cost more than the
// work), then a futex sleep (on a shared host a spinning waiter steals the very time it waits for).
class ThreadPool {
 public:
  // The calling thread is thread 0 of every region.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Calls f(thread index) on every thread; returns when all have finished. f must not throw. One
  // region at a time: callers that share a pool take turns.
  template <typename F>
  void run(F&& f) {
    run_region(const_cast<std::remove_cvref_t<F>*>(&f), [](void* context, int thread) {
      (*static_cast<std::remove_cvref_t<F>*>(context))(thread);
    });
  }

  // Inside a region only: waits until all threads of the region have arrived.
  void barrier();

 private:
  using Function = void (*)(void*, int);
  void run_region(void* context, Function function);
  void worker(int thread);
  void wait(std::atomic<std::uint32_t>& word, std::uint32_t old);
  void wake(std::atomic<std::uint32_t>& word);
  void start();

  int size_;
  void* context_ = nullptr;
  Function function_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<std::uint32_t> phase_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::vector<std::thread> threads_;
};

// Part `index` of [0, count) cut into `parts` contiguous ranges whose sizes differ by at most one.
inline std::pair<std::int64_t, std::int64_t> static_split(std::int64_t count, int parts,
                                                          int index) {
  const std::int64_t base = count / parts;
  const std::int64_t extra = count % parts;
  const std::int64_t begin = index * base + (index < extra ? index : extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

}  // namespace ingot
