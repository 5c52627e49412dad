#pragma once

#include <cstdint>

namespace ingot {

// What may start while others run.
enum class SchedulerPolicy : std::uint8_t {
  // As soon as its prompt fits; when pages run out, the youngest is paused and comes back later.
  kMaxUtilization,
  // When pages for all that it may ever hold are free: nobody is paused.
  kGuaranteedNoEvict,
  // When pages for the answer that is usual here are free; a wrong guess pauses the youngest.
  kExpectedLength,
};
const char* to_string(SchedulerPolicy policy);

enum class Phase : std::uint8_t {
  kWaiting,  // has no pages
  kRunning,
  kGone,  // has ended, or was never there
};

// Why a request does not run.
enum class WaitReason : std::uint8_t {
  kNone,      // it runs
  kQueue,     // others come first
  kPages,     // the KV cache has no room for it yet
  kRows,      // as many sequences run as a step holds
  kBudget,    // the step is full
  kNotReady,  // something of its own is being made, such as its grammar
};
const char* to_string(WaitReason reason);

// Where a request stands.
struct RequestState {
  Phase phase = Phase::kWaiting;
  WaitReason reason = WaitReason::kNone;
  std::int64_t ahead = 0;         // waiting requests that come first
  std::int64_t pages_wanted = 0;  // to start, with kPages
  std::int64_t pages_free = 0;
  std::int64_t preemptions = 0;  // times it was paused to make room
};

}  // namespace ingot
