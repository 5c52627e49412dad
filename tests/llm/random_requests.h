#pragma once

#include "ingot/engine.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace ingot::test {

// An engine to be used at random, and what to look at when it has ended.
struct EngineUnderTest {
  std::unique_ptr<Engine> engine;
  std::int32_t vocab = 0;
  std::int64_t max_seq = 0;
  bool watched = false;  // told() hears of every last event
};

// Last events as the engine's thread gave them, by request: each has exactly one.
class LastEvents {
 public:
  void told(const OutputEvent& last);
  std::int64_t count(RequestId id) const;
  std::int64_t requests() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<RequestId, std::int64_t> told_;
};

struct RandomUse {
  unsigned seed = 0;
  int threads = 4;
  double seconds = 1;
  std::int64_t submissions = 0;  // a thread; 0: as many as the time allows
};

struct UseReport {
  std::int64_t submitted = 0;
  std::int64_t refused = 0;
  std::int64_t finished = 0, cancelled = 0, expired = 0, failed = 0;  // as their readers saw it
  std::string wrong;  // the first thing that should not have been; "" when all is well
};

// Several threads submit, read, wait, cancel, drop and ask at random; then the engine is drained or
// closed while they go on. Checks that every request that was read to its end had one last event,
// that every request has ended, and that every page of the KV cache came back.
UseReport use_at_random(EngineUnderTest& under_test, LastEvents& last_events, const RandomUse& use);

}  // namespace ingot::test
