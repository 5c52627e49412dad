#pragma once

#include <cstdint>

namespace ingot {

// One request, told with its last event. Times in seconds; a token counts when the step that drew
// it is over, not when it is read.
struct RequestStatistics {
  double queue_seconds = 0;        // from submission to its first step
  double first_token_seconds = 0;  // from submission; 0: there was none
  double total_seconds = 0;        // from submission to its end
  double token_gap_mean = 0;       // between tokens of an answer; 0: no answer has two
  double token_gap_max = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;     // of these, found in the KV cache
  std::int64_t generated_tokens = 0;  // of all its answers, or beams
  std::int64_t drafted_tokens = 0;    // guessed by speculation
  std::int64_t accepted_drafts = 0;   // of these, what was then drawn
  std::int64_t preemptions = 0;       // times it was paused to make room
  std::int64_t pages = 0;             // of KV cache, the most that it held
};

// One step of the engine. Times in seconds.
struct StepStatistics {
  std::int64_t step = 0;           // from 1
  std::int64_t tokens = 0;         // computed
  std::int64_t decode_tokens = 0;  // of these; the others are of prompts
  std::int64_t sequences = 0;      // that took part
  std::int64_t running = 0;        // requests, after the step
  std::int64_t waiting = 0;
  std::int64_t preempted = 0;  // requests paused to make room
  std::int64_t free_pages = 0;
  std::int64_t kept_pages = 0;  // used by nobody, kept for prompts that begin alike
  double schedule_seconds = 0;  // to decide what runs
  double run_seconds = 0;       // of the device, with sampling
  double commit_seconds = 0;    // of the books after it
};

// An engine since its start.
struct EngineStatistics {
  std::int64_t steps = 0;
  std::int64_t requests = 0;  // submitted
  std::int64_t finished = 0;  // by stop or length
  std::int64_t cancelled = 0;
  std::int64_t expired = 0;  // at their deadline
  std::int64_t failed = 0;
  std::int64_t prompt_tokens = 0;  // of requests that started
  std::int64_t cached_tokens = 0;  // of these, found in the KV cache
  std::int64_t generated_tokens = 0;
  std::int64_t drafted_tokens = 0;   // guessed by speculation
  std::int64_t accepted_drafts = 0;  // of these, what was then drawn
  std::int64_t preemptions = 0;
  std::int64_t running = 0;  // now
  std::int64_t waiting = 0;  // now
  std::int64_t pages = 0;    // of KV cache
  std::int64_t free_pages = 0;
  std::int64_t kept_pages = 0;
  std::int64_t host_pages = 0;
  std::int64_t host_used = 0;
  std::int64_t evictions = 0;  // pages forgotten to make room
  std::int64_t pages_to_host = 0;
  std::int64_t pages_from_host = 0;
};

}  // namespace ingot
