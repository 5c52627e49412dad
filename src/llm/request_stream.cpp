#include "llm/request_stream.h"

#include "ingot/engine.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace ingot {

namespace {

constexpr double kEver = 1e9;  // seconds

// Joins what came in pieces.
void append(OutputEvent& whole, OutputEvent&& event) {
  OutputEvent before = std::exchange(whole, std::move(event));
  const auto join = [](auto& first, auto& second) {
    first.insert(first.end(), std::make_move_iterator(second.begin()),
                 std::make_move_iterator(second.end()));
    second = std::move(first);
  };
  whole.text = before.text + whole.text;
  join(before.tokens, whole.tokens);
  join(before.logprobs, whole.logprobs);
  join(before.prompt_logprobs, whole.prompt_logprobs);
}

}  // namespace

void RequestStream::push(OutputEvent&& event) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = event.last;
    events_.push_back(std::move(event));
  }
  // All of them: whoever waits when the last event goes to another has to leave too.
  arrived_.notify_all();
}

std::optional<OutputEvent> RequestStream::pop(double seconds) {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> patience(std::clamp(seconds, 0.0, kEver));
  arrived_.wait_for(lock, patience, [this] { return !events_.empty() || ended_; });
  if (events_.empty()) return std::nullopt;
  OutputEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

bool RequestStream::finished() const {
  const std::lock_guard lock(mutex_);
  return ended_ && events_.empty();
}

void RequestStream::cancel() {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
  }
  inbox_->cancel(id_);
}

RequestHandle::RequestHandle(std::shared_ptr<RequestStream> stream) : stream_(std::move(stream)) {}

RequestHandle::~RequestHandle() {
  if (stream_) stream_->cancel();
}

RequestHandle::RequestHandle(RequestHandle&&) noexcept = default;

RequestHandle& RequestHandle::operator=(RequestHandle&& other) noexcept {
  if (this == &other) return *this;
  if (stream_) stream_->cancel();
  stream_ = std::move(other.stream_);
  return *this;
}

RequestId RequestHandle::id() const {
  return stream_->id();
}

std::optional<OutputEvent> RequestHandle::next() {
  return stream_->pop(kEver);
}

std::optional<OutputEvent> RequestHandle::next(double seconds) {
  return stream_->pop(seconds);
}

bool RequestHandle::finished() const {
  return stream_->finished();
}

void RequestHandle::cancel() {
  stream_->cancel();
}

std::vector<OutputEvent> RequestHandle::await() {
  std::vector<OutputEvent> answers;
  while (std::optional<OutputEvent> event = next()) {
    auto answer = std::ranges::find(answers, event->index, &OutputEvent::index);
    if (answer == answers.end()) {
      answers.push_back(std::move(*event));
    } else {
      append(*answer, std::move(*event));
    }
  }
  std::ranges::sort(answers, {}, &OutputEvent::index);
  return answers;
}

}  // namespace ingot
