#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace ingot {

// A thread that runs one job at a time, while whoever gave it does something else: a device's step
// beside the texts of the step before.
class StepRunner {
 public:
  StepRunner();
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // wait() comes before the next start().
  void start(std::function<void()> job);
  // Returns when the job has; throws what it threw.
  void wait();
  // Returns when the job has, if there is one, and asks no more.
  void finish();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  std::exception_ptr error_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ingot
