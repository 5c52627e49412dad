#include "runtime/step_runner.h"

#include "base/check.h"

#include <utility>

namespace ingot {

StepRunner::StepRunner() : thread_([this] { work(); }) {}

StepRunner::~StepRunner() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StepRunner::start(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    check(!busy_, "one step at a time");
    job_ = std::move(job);
    busy_ = true;
  }
  changed_.notify_all();
}

void StepRunner::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void StepRunner::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  error_ = nullptr;
}

void StepRunner::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || ending_; });
    if (!busy_) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      job_();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace ingot
