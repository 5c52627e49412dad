#include "llm/engine_thread.h"

#include "base/check.h"
#include "base/exception.h"
#include "base/log.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

namespace ingot {

namespace {

constexpr double kEver = 1e9;  // seconds
// While requests wait for something of their own, a deadline or a grammar: how soon it is looked at
// again.
constexpr double kLookAgain = 0.0005;

}  // namespace

EngineThread::EngineThread(EngineLoop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      inbox_(std::make_shared<Inbox>()),
      statistics_(loop.statistics()),
      moved_at_(Clock::now()),
      thread_([this] { run(); }),
      watch_([this] { watch(); }) {}

EngineThread::~EngineThread() {
  close();
}

std::optional<Error> EngineThread::submit(RequestId id, Request request, EventReceiver receiver) {
  if (std::string wrong = loop_.refusal_of(request); !wrong.empty())
    return Error(ErrorCode::kRequest, std::move(wrong));
  return inbox_->submit({.id = id, .request = std::move(request), .receiver = std::move(receiver)});
}

EngineStatistics EngineThread::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

bool EngineThread::drain(double seconds) {
  inbox_->stop_taking();
  return inbox_->wait_until_idle(seconds);
}

void EngineThread::close() {
  std::call_once(closed_, [this] {
    inbox_->close();
    thread_.join();
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    ended_changed_.notify_all();
    watch_.join();
  });
}

void EngineThread::run() {
  std::optional<Error> reason;
  try {
    while (serve()) step();
    cancel_all();
  } catch (const std::exception& e) {
    reason = as_error(e);
    fail_all(*reason);
  }
  Inbox::Contents left = inbox_->end(reason);
  const Error ended = reason.value_or(Error(ErrorCode::kInterrupted, "[engine] it was closed"));
  for (Inbox::Submission& s : left.submissions) s.receiver(error_event(s.id, ended));
  for (Inbox::Question& q : left.questions) q.answer.set_value({.phase = Phase::kGone});
  inbox_->count_ended(std::exchange(ended_requests_, 0) + std::ssize(left.submissions));
  tell_progress(true);
}

// Does what others asked for, and waits for it when there is nothing else to do. False: the engine
// is to end.
bool EngineThread::serve() {
  if (ended_requests_ > 0) inbox_->count_ended(std::exchange(ended_requests_, 0));
  const double patience = !loop_.has_work() ? kEver : moved_ ? 0 : kLookAgain;
  Inbox::Contents contents = inbox_->take(patience);
  if (!contents.submissions.empty() && open_.empty()) {
    const std::lock_guard lock(mutex_);
    busy_ = true;
    moved_at_ = Clock::now();
  }
  for (Inbox::Submission& s : contents.submissions) accept(std::move(s));
  for (const RequestId id : contents.cancels)
    if (const auto known = loop_id_.find(id); known != loop_id_.end()) loop_.cancel(known->second);
  for (Inbox::Question& q : contents.questions) answer(q);
  return !contents.closing;
}

void EngineThread::accept(Inbox::Submission submission) {
  std::optional<Error> error;
  try {
    const Result<RequestId> id = loop_.submit(std::move(submission.request));
    if (id) {
      open_[*id] = {.id = submission.id, .receiver = std::move(submission.receiver)};
      loop_id_[submission.id] = *id;
      return;
    }
    error = id.error();
  } catch (const std::exception& e) {
    error = as_error(e);
  }
  submission.receiver(error_event(submission.id, *error));
  ++ended_requests_;
}

void EngineThread::answer(Inbox::Question& question) const {
  const auto known = loop_id_.find(question.id);
  question.answer.set_value(known == loop_id_.end() ? RequestState{.phase = Phase::kGone}
                                                    : loop_.scheduler().state(known->second));
}

void EngineThread::step() {
  const std::int64_t before = loop_.last_step().step;
  loop_.step([this](OutputEvent&& event) { receive(std::move(event)); });
  moved_ = loop_.last_step().step != before;
  if (moved_ && options_.on_step) options_.on_step(loop_.last_step());
  tell_progress(moved_);
  if (options_.check) options_.check();
}

void EngineThread::receive(OutputEvent&& event) {
  const auto known = open_.find(event.id);
  check(known != open_.end(), "events are of requests that are open");
  event.id = known->second.id;
  if (!event.last) {
    known->second.receiver(std::move(event));
    return;
  }
  {  // who is told of the end may look at once
    const std::lock_guard lock(mutex_);
    statistics_ = loop_.statistics();
  }
  if (options_.on_last) options_.on_last(event);
  const Open open = std::move(known->second);
  loop_id_.erase(open.id);
  open_.erase(known);
  ++ended_requests_;
  open.receiver(std::move(event));
}

void EngineThread::cancel_all() {
  std::vector<RequestId> ids;
  for (const auto& [id, open] : open_) ids.push_back(id);
  std::ranges::sort(ids);
  for (const RequestId id : ids) loop_.cancel(id);
  loop_.step([this](OutputEvent&& event) { receive(std::move(event)); });
  check(open_.empty(), "a cancelled request ends");
}

void EngineThread::fail_all(const Error& error) {
  for (auto& [loop_id, open] : std::exchange(open_, {})) {
    open.receiver(error_event(open.id, error));
    ++ended_requests_;
  }
  loop_id_.clear();
}

OutputEvent EngineThread::error_event(RequestId id, const Error& error) {
  OutputEvent event{.id = id, .last = true, .finish = FinishReason::kError};
  event.error = error.message();
  event.error_code = error.code();
  return event;
}

void EngineThread::tell_progress(bool moved) {
  std::string waits;
  if (!moved && !open_.empty()) waits = reason_to_wait();
  const std::lock_guard lock(mutex_);
  statistics_ = loop_.statistics();
  busy_ = !open_.empty();
  waits_ = std::move(waits);
  if (!moved && busy_) return;
  moved_at_ = Clock::now();
  told_ = false;
}

// Of the request that has been there longest.
std::string EngineThread::reason_to_wait() const {
  const auto oldest =
      std::ranges::min_element(open_, {}, [](const auto& entry) { return entry.first; });
  const RequestState s = loop_.scheduler().state(oldest->first);
  std::string reason = fmt::format("request {} waits: {}", oldest->second.id, to_string(s.reason));
  if (s.reason == WaitReason::kPages)
    reason += fmt::format(" ({} pages wanted, {} free)", s.pages_wanted, s.pages_free);
  return reason;
}

void EngineThread::watch() {
  const auto patience = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(std::clamp(options_.stall_seconds, 0.001, kEver)));
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const Clock::time_point due = moved_at_ + patience;
    if (!busy_ || told_ || Clock::now() < due) {
      ended_changed_.wait_until(lock, busy_ && !told_ ? due : Clock::now() + patience,
                                [this] { return ended_; });
      continue;
    }
    told_ = true;
    const std::string text = fmt::format(
        "[engine.stall] no step has ended for {:.1f} s; {} requests run, {} wait; {}",
        std::chrono::duration<double>(Clock::now() - moved_at_).count(), statistics_.running,
        statistics_.waiting, waits_.empty() ? "a step is under way" : waits_);
    lock.unlock();
    if (options_.on_stall)
      options_.on_stall(text);
    else
      log_warning("{}", text);
    lock.lock();
  }
}

}  // namespace ingot
