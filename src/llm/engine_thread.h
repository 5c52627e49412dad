#pragma once

#include "base/result.h"
#include "ingot/scheduling.h"
#include "ingot/statistics.h"
#include "llm/inbox.h"
#include "runtime/engine_loop.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

namespace ingot {

// An engine loop on a thread of its own, for any number of others. It sleeps when there is nothing
// to do.
class EngineThread {
 public:
  struct Options {
    double stall_seconds = 30;                           // see EngineOptions
    std::function<void(const std::string&)> on_stall;    // by a thread of its own; may be empty
    std::function<void()> check;                         // after each step; throws: the engine ends
    std::function<void(const StepStatistics&)> on_step;  // by the engine's thread; may be empty
    std::function<void(const OutputEvent&)> on_last;     // likewise, of each request
  };
  // The loop outlives this, and nobody else calls it.
  EngineThread(EngineLoop& loop, Options options);
  // As close().
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // See Engine. submit() takes an id of inbox().new_id().
  std::optional<Error> submit(RequestId id, Request request, EventReceiver receiver);
  const std::shared_ptr<Inbox>& inbox() const { return inbox_; }
  EngineStatistics statistics() const;
  bool drain(double seconds);
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    RequestId id = 0;  // as it is known outside; the loop has its own
    EventReceiver receiver;
  };

  void run();
  bool serve();
  void accept(Inbox::Submission submission);
  void answer(Inbox::Question& question) const;
  void cancel_all();
  void step();
  void receive(OutputEvent&& event);
  void fail_all(const Error& error);
  static OutputEvent error_event(RequestId id, const Error& error);
  void tell_progress(bool moved);
  std::string reason_to_wait() const;
  void watch();

  EngineLoop& loop_;
  Options options_;
  std::shared_ptr<Inbox> inbox_;

  // Of the engine's thread.
  std::unordered_map<RequestId, Open> open_;  // by the loop's id
  std::unordered_map<RequestId, RequestId> loop_id_;
  std::int64_t ended_requests_ = 0;  // since it was told to the inbox
  bool moved_ = true;                // by the last call of step()

  // What others see of it.
  mutable std::mutex mutex_;
  std::condition_variable ended_changed_;
  EngineStatistics statistics_;
  std::string waits_;  // why nothing runs; "" while steps do
  bool busy_ = false;
  bool told_ = false;           // of the stall that is
  Clock::time_point moved_at_;  // end of the last step, or when work came
  bool ended_ = false;

  std::once_flag closed_;
  std::thread thread_;
  std::thread watch_;
};

}  // namespace ingot
