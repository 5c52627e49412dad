#pragma once

#include "ingot/request.h"
#include "ingot/scheduling.h"
#include "runtime/kv_cache.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace ingot {

// One answer of a request: its tokens, its pages, its row in the batch. Touched by one thread.
struct Sequence {
  std::int32_t index = 0;            // of the answers of its request
  std::vector<std::int32_t> tokens;  // prompt and answer
  std::vector<std::int32_t> drafts;  // guesses of what follows; the next step checks them
  std::size_t cached = 0;            // tokens whose K and V are in its pages
  PageChain chain;
  bool attached = false;  // it runs, and has looked for its beginning in the cache
  std::int32_t row = -1;  // of the block table while it runs
  std::uint64_t seed = 0;
  bool done = false;  // has ended; others of its request go on

  std::size_t left() const { return tokens.size() - cached; }
};

struct RequestRecord;

// A request as the scheduler sees it: answers that share a prompt, start together and are paused
// together.
struct SequenceGroup {
  RequestId id = 0;
  RequestRecord* record = nullptr;  // of whoever asked; the scheduler does not look into it
  std::size_t prompt_tokens = 0;
  std::size_t limit = 0;  // most tokens an answer may hold, prompt included
  std::int32_t rope_row = 0;
  std::int32_t width = 1;    // answers it will have
  bool lockstep = false;     // its answers take each step together, as beams do
  bool prompt_rows = false;  // logits of every prompt token are wanted
  bool ready = true;         // false: not to be started yet
  bool sits_out = false;     // it runs, but not in the next step; it may be paused all the same
  bool share = true;         // pages are shared with other requests of the same salt
  std::int64_t order = 0;    // who comes first: smaller, then the smaller id
  std::vector<std::unique_ptr<Sequence>> members;

  Phase phase = Phase::kWaiting;
  std::int64_t decoding = 0;  // answers that have one token left to compute, as this step begins
  std::int64_t promised = 0;  // pages that the policy keeps for it
  std::int64_t preemptions = 0;
  std::int64_t most_pages = 0;  // that it held, counted when it gives them back
  std::size_t reused = 0;       // prompt tokens found in the cache when it first started
  bool started = false;

  std::size_t generated(const Sequence& s) const { return s.tokens.size() - prompt_tokens; }
};

}  // namespace ingot
