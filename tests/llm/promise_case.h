#pragma once

#include "ingot/request.h"
#include "ingot/scheduling.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ingot::test {

enum class Guesser : std::uint8_t { kNone, kNgram, kModel };

// What must not change what a request is given.
struct Conditions {
  std::int64_t step_tokens = 512;  // of a step; one for each sequence at least
  std::int64_t sequences = 8;      // of a step; the answers of the widest request at least
  std::int64_t head_rows = 16;     // whose logits are computed at once
  std::int64_t pages = 64;         // of the pool; those of the largest request at least
  std::int64_t host_pages = 0;
  SchedulerPolicy policy = SchedulerPolicy::kMaxUtilization;
  bool overlap = true;
  int threads = 1;
  Guesser guesser = Guesser::kNone;
};

// A request by its parts, so that it stays one whatever is taken away. Its prompt is `common`
// tokens that all of its family begin with, then `own` ones by `text`: 0 begins the family's text
// again, which is easily guessed.
struct PromisedRequest {
  int family = 0;
  std::int64_t common = 0;
  std::int64_t own = 1;
  int text = 0;
  // The next turn of a chat: before `own`, in place of `common`, stand the prompt and the first
  // answer of the request before it in the list.
  bool continues = false;
  int arrives = 0;    // before this step
  int cancelled = 0;  // so many steps after it came; 0: not
  bool changes_logits = false;
  std::string salt;
  bool share_cache = true;
  int priority = 0;
  GuidedKind guided = GuidedKind::kNone;
  std::string description;  // of what is guided
  SamplingParams sampling;
};

struct PromiseCase {
  Conditions conditions;
  std::vector<PromisedRequest> requests;
};

// What random cases may ask of a model.
struct CaseLimits {
  std::int32_t vocab = 0;
  std::int64_t page_tokens = 64;
  std::int64_t least_pages = 1;  // of most prompts of a case
  std::int64_t most_pages = 3;
  int requests = 6;            // of a case, 2 or more
  int different = 0;           // requests, over all cases, apart from turns of chats; 0: any number
  std::int32_t answer = 16;    // tokens, about
  int guided = 0;              // of so many requests one; 0: none
  bool has_tokenizer = false;  // for texts that end an answer
};

// Every seed its own, and each kind of condition in turn.
PromiseCase random_case(unsigned seed, const CaseLimits& limits);

// As C++, ready to stand in a test: what is as ever is left out.
std::string to_string(const PromiseCase& c);

// The smallest case found that still fails: fewer requests, then every field as ever or nearer to
// it, again and again until nothing goes any more, or `fails` was asked `most` times.
PromiseCase shrunk(PromiseCase c, const std::function<bool(const PromiseCase&)>& fails, int most);

}  // namespace ingot::test
