#pragma once

#include "ingot/guided_decoding.h"
#include "ingot/logits_callback.h"
#include "ingot/sampling_params.h"
#include "ingot/statistics.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

using RequestId = std::uint64_t;

// The reasons of base/error.h. Declared here alone, so that these headers need no others.
enum class ErrorCode;

struct Request {
  std::vector<std::int32_t> prompt;  // token ids
  SamplingParams sampling;
  LogitsCallback change_logits;  // may be empty
  GuidedDecoding guided;         // what the answer has to look like
  // Who is served first: a level is worth ten seconds of waiting, so nobody waits for ever.
  std::int32_t priority = 0;  // -100 to 100, higher first
  double deadline = 0;        // seconds from submission, then it ends (kDeadline); 0: none
  // Prompts that begin alike share their KV cache, within one salt: give each tenant its own.
  std::string cache_salt;
  bool share_cache = true;           // false: nothing of it is shared or found later
  std::int32_t cache_priority = 35;  // 0 to 100: pages of the lowest go first
  double cache_seconds = 0;          // how long the priority counts; 0: for ever
};

enum class FinishReason : std::uint8_t {
  kRunning,  // not finished
  kStop,     // an end token or a stop string
  kLength,   // max_tokens, or the context is full
  kCancelled,
  kDeadline,  // it was not done in time
  kError,
};

// "stop", "length", ...: the words of the OpenAI API.
const char* to_string(FinishReason reason);

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;                                // finite: -9999 for what cannot be
  std::vector<std::pair<std::int32_t, float>> top;  // likeliest first
};

struct Usage {
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;  // of this answer
  std::int64_t cached_tokens = 0;      // of the prompt, found in the KV cache
  std::int64_t drafted_tokens = 0;     // guessed by speculation, for all answers
  std::int64_t accepted_drafts = 0;    // of these, what was then drawn
};

// Seconds since submission.
struct Timing {
  double started = 0;  // it left the queue
  double first_token = 0;
  double total = 0;
};

// What one step made of one answer. The texts of all events joined are the answer; its last event
// has a finish reason.
struct OutputEvent {
  RequestId id = 0;
  std::int32_t index = 0;  // of the answers of the request
  bool last = false;       // of the request: nothing more comes
  std::uint64_t seed = 0;  // of the request: asking again with it gives the same answers
  std::string text;        // whole characters only
  std::vector<std::int32_t> tokens;
  std::vector<TokenLogprob> logprobs;
  // With the request's first event, where asked for: of every prompt token but the first.
  std::vector<TokenLogprob> prompt_logprobs;
  FinishReason finish = FinishReason::kRunning;
  double score = 0;   // of a beam, with its last event: log-probability / length^length_penalty
  std::string error;  // with kError, and why in error_code
  ErrorCode error_code{};
  Usage usage;
  Timing timing;
  RequestStatistics statistics;  // with the last event
};

}  // namespace ingot
