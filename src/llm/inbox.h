#pragma once

#include "base/error.h"
#include "ingot/request.h"
#include "ingot/scheduling.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <vector>

namespace ingot {

// Where the events of one request go. Called by the engine's thread, never while a lock is held;
// does not wait for anybody and does not throw.
using EventReceiver = std::function<void(OutputEvent&&)>;

// What other threads leave for the engine's thread. Any thread may call anything; take() and
// count_ended() are for the engine's alone.
class Inbox {
 public:
  struct Submission {
    RequestId id = 0;
    Request request;
    EventReceiver receiver;
  };
  struct Question {
    RequestId id = 0;
    std::promise<RequestState> answer;
  };
  struct Contents {
    std::vector<Submission> submissions;
    std::vector<RequestId> cancels;
    std::vector<Question> questions;
    bool closing = false;

    bool empty() const {
      return submissions.empty() && cancels.empty() && questions.empty() && !closing;
    }
  };

  // Ids are never used twice.
  RequestId new_id() { return next_id_.fetch_add(1); }
  // Why it was not taken: the engine takes no more.
  [[nodiscard]] std::optional<Error> submit(Submission submission);
  void cancel(RequestId id);
  // kGone at once when the engine has ended.
  RequestState ask(RequestId id);

  // Nothing more is taken.
  void stop_taking();
  // The engine is to cancel what there is, and end.
  void close();
  // Waits until every request that was taken has ended; false: not within so many seconds.
  bool wait_until_idle(double seconds);

  // All there is; waits for it up to so many seconds.
  Contents take(double seconds);
  // So many requests have had their last event.
  void count_ended(std::int64_t requests);
  // Nobody reads this any more: `reason`, if any, is what submissions are refused with from now on.
  // What is still there.
  Contents end(std::optional<Error> reason);

 private:
  std::atomic<RequestId> next_id_{1};
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable idle_;
  Contents contents_;
  bool taking_ = true;
  bool ended_ = false;
  std::optional<Error> reason_;
  std::int64_t open_ = 0;
};

}  // namespace ingot
