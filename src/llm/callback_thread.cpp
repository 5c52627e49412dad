#include "llm/callback_thread.h"

#include "base/log.h"

#include <exception>

namespace ingot {

CallbackThread::CallbackThread(std::shared_ptr<Inbox> inbox)
    : inbox_(std::move(inbox)), thread_([this] { work(); }), id_(thread_.get_id()) {}

CallbackThread::~CallbackThread() {
  finish();
}

void CallbackThread::finish() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

EventReceiver CallbackThread::receiver_for(EventCallback callback) {
  auto listener = std::make_shared<Listener>();
  listener->callback = std::move(callback);
  return [this, listener = std::move(listener)](OutputEvent&& event) {
    {
      const std::lock_guard lock(mutex_);
      events_.emplace_back(listener, std::move(event));
    }
    arrived_.notify_one();
  };
}

void CallbackThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    arrived_.wait(lock, [this] { return !events_.empty() || ending_; });
    if (events_.empty()) return;
    auto [listener, event] = std::move(events_.front());
    events_.pop_front();
    lock.unlock();
    tell(*listener, event);
    listener.reset();  // what the callback holds goes without the lock
    lock.lock();
  }
}

void CallbackThread::tell(Listener& listener, const OutputEvent& event) {
  if (listener.deaf) return;
  try {
    listener.callback(event);
  } catch (const std::exception& e) {
    listener.deaf = true;
    log_warning("[engine.callback] request {}: {}; it is cancelled", event.id, e.what());
    inbox_->cancel(event.id);
  } catch (...) {
    listener.deaf = true;
    log_warning("[engine.callback] request {}: something was thrown; it is cancelled", event.id);
    inbox_->cancel(event.id);
  }
}

}  // namespace ingot
