#include "llm/inbox.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ingot {

namespace {

// Past any wait, and far from the end of the clock.
std::chrono::duration<double> patience(double seconds) {
  return std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e9));
}

}  // namespace

std::optional<Error> Inbox::submit(Submission submission) {
  {
    const std::lock_guard lock(mutex_);
    if (!taking_)
      return reason_.value_or(Error(ErrorCode::kRequest,
                                    "[engine] takes no more requests: it was told to drain or "
                                    "close"));
    ++open_;
    contents_.submissions.push_back(std::move(submission));
  }
  arrived_.notify_one();
  return std::nullopt;
}

void Inbox::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    contents_.cancels.push_back(id);
  }
  arrived_.notify_one();
}

RequestState Inbox::ask(RequestId id) {
  std::future<RequestState> answer;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return {.phase = Phase::kGone};
    contents_.questions.push_back({.id = id, .answer = {}});
    answer = contents_.questions.back().answer.get_future();
  }
  arrived_.notify_one();
  return answer.get();
}

void Inbox::stop_taking() {
  const std::lock_guard lock(mutex_);
  taking_ = false;
}

void Inbox::close() {
  {
    const std::lock_guard lock(mutex_);
    taking_ = false;
    contents_.closing = true;
  }
  arrived_.notify_one();
}

bool Inbox::wait_until_idle(double seconds) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, patience(seconds), [this] { return open_ == 0; });
}

Inbox::Contents Inbox::take(double seconds) {
  std::unique_lock lock(mutex_);
  if (seconds > 0)
    arrived_.wait_for(lock, patience(seconds), [this] { return !contents_.empty(); });
  Contents taken = std::exchange(contents_, {});
  contents_.closing = taken.closing;
  return taken;
}

void Inbox::count_ended(std::int64_t requests) {
  {
    const std::lock_guard lock(mutex_);
    open_ -= requests;
    if (open_ > 0) return;
  }
  idle_.notify_all();
}

Inbox::Contents Inbox::end(std::optional<Error> reason) {
  const std::lock_guard lock(mutex_);
  taking_ = false;
  ended_ = true;
  reason_ = std::move(reason);
  return std::exchange(contents_, {});
}

}  // namespace ingot
