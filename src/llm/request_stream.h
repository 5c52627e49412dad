#pragma once

#include "ingot/request.h"
#include "llm/inbox.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

namespace ingot {

// The events of one request between the engine's thread and whoever reads them. Not bounded: the
// engine waits for no reader, and an answer ends.
class RequestStream {
 public:
  RequestStream(RequestId id, std::shared_ptr<Inbox> inbox) : id_(id), inbox_(std::move(inbox)) {}

  RequestId id() const { return id_; }
  void push(OutputEvent&& event);
  // The next event, waited for at most so many seconds.
  std::optional<OutputEvent> pop(double seconds);
  bool finished() const;
  // Nothing, when the last event is here already.
  void cancel();

 private:
  const RequestId id_;
  const std::shared_ptr<Inbox> inbox_;  // may outlive the engine
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<OutputEvent> events_;
  bool ended_ = false;  // the last event is here, or was
};

}  // namespace ingot
