#pragma once

#include "ingot/engine.h"
#include "llm/inbox.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace ingot {

// Calls users' callbacks, one event after the other, so that the engine's thread waits for none.
class CallbackThread {
 public:
  // Requests whose callback threw are cancelled through `inbox`.
  explicit CallbackThread(std::shared_ptr<Inbox> inbox);
  // As finish().
  ~CallbackThread();
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  EventReceiver receiver_for(EventCallback callback);
  // Returns when every event that was received has been told. Nothing is received from now on. One
  // thread calls it.
  void finish();
  bool is_this_thread() const { return std::this_thread::get_id() == id_; }

 private:
  struct Listener {
    EventCallback callback;
    bool deaf = false;  // it threw
  };
  void work();
  void tell(Listener& listener, const OutputEvent& event);

  std::shared_ptr<Inbox> inbox_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::pair<std::shared_ptr<Listener>, OutputEvent>> events_;
  bool ending_ = false;
  std::thread thread_;
  std::thread::id id_;
};

}  // namespace ingot
