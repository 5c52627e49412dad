#include "tests/llm/promise_case.h"
#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace ingot::test {

namespace {

class Chance {
 public:
  explicit Chance(unsigned seed) : random_(seed) {}
  int below(std::int64_t n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return n > 0 && below(n) == 0; }
  unsigned number() { return random_(); }

 private:
  std::mt19937 random_;
};

// A request's prompt and what is asked of it: nothing of other requests, or of when it comes.
class RequestMaker : Chance {
 public:
  RequestMaker(unsigned seed, std::int64_t pages, const CaseLimits& limits)
      : Chance(seed), pages_(pages), limits_(limits) {}

  PromisedRequest make() {
    PromisedRequest r{.family = below(2), .text = one_in(3) ? 0 : below(50)};
    const std::int64_t full = pages_ * limits_.page_tokens;
    // About to want another page, or just a little longer than what others may have in common.
    const std::int64_t length = one_in(4) ? 1 + below(full) : full + 8 - below(14);
    if (!one_in(4)) r.common = one_in(2) ? full : full / 2 + below(full / 2);
    r.common = std::min(r.common, length - 1);
    r.own = length - r.common;
    r.changes_logits = one_in(10);
    if (one_in(12)) r.salt = "other";
    r.share_cache = !one_in(12);
    r.sampling = sampling();
    if (one_in(limits_.guided)) guide(r);
    return r;
  }

 private:
  std::int32_t token() { return below(limits_.vocab); }

  SamplingParams sampling() {
    SamplingParams p;
    p.seed = number();
    p.max_tokens = 1 + below(limits_.answer) + below(limits_.answer);
    if (one_in(8)) p.max_tokens *= 2;
    if (!one_in(6)) p.logprobs = below(4);
    if (one_in(8)) p.prompt_logprobs = below(3);
    add_penalties(p);
    add_ends(p);
    if (one_in(10)) {
      p.temperature = 0;
      p.beam_width = 2 + below(2);
      p.n = 1 + below(p.beam_width);
      p.length_penalty = below(3);
      p.logprobs = -1;
      return p;
    }
    if (one_in(6)) p.n = 2 + below(2);
    if (one_in(15)) p.best_of = p.n + 1;
    if (one_in(2)) {
      p.temperature = 0;
      return p;
    }
    p.temperature = one_in(2) ? 0.7 : 1.4;
    if (one_in(4)) p.top_k = 1 + below(40);
    if (one_in(4)) p.top_p = 0.9;
    if (one_in(10)) p.top_p_decay = 0.95;
    if (one_in(6)) p.min_p = 0.05;
    if (one_in(10)) p.typical_p = 0.9;
    return p;
  }

  void add_penalties(SamplingParams& p) {
    if (one_in(5)) p.repetition_penalty = 1.3;
    if (one_in(8)) p.presence_penalty = 0.5;
    if (one_in(8)) p.frequency_penalty = -0.4;
    if (one_in(10)) p.no_repeat_ngram_size = 3;
    if (one_in(4)) p.logit_bias = {{token(), 4.0}, {token(), 5.5}};
    if (one_in(8)) p.bad_token_ids = {{token()}, {token(), token()}};
  }

  void add_ends(SamplingParams& p) {
    p.ignore_eos = !one_in(3);
    if (one_in(8)) p.min_tokens = 1 + below(p.max_tokens);
    if (one_in(8)) p.stop_token_ids = {token(), token()};
    if (limits_.has_tokenizer && one_in(6)) p.stop = {"e", "th"};
  }

  void guide(PromisedRequest& r) {
    r.sampling.min_tokens = 0;  // a grammar says where it ends
    r.guided = one_in(2) ? GuidedKind::kRegex : GuidedKind::kJsonSchema;
    r.description = r.guided == GuidedKind::kRegex
                        ? "(ab|cd|e){2,30}!"
                        : R"({"type": "array", "items": {"type": "integer"}})";
  }

  std::int64_t pages_;  // that most prompts fill
  const CaseLimits& limits_;
};

class CaseMaker : Chance {
 public:
  CaseMaker(unsigned seed, const CaseLimits& limits)
      : Chance(seed),
        seed_(seed),
        limits_(limits),
        pages_(limits.least_pages + below(limits.most_pages - limits.least_pages + 1)) {}

  PromiseCase make() {
    PromiseCase c;
    const int requests = 2 + below(limits_.requests - 1);
    for (int i = 0; i < requests; ++i)
      c.requests.push_back(is_tight() ? tight_request() : request(i));
    c.conditions = conditions();
    if (is_tight()) {
      c.conditions.pages = pages_ * requests;
      c.conditions.sequences = 8;
      c.conditions.policy = SchedulerPolicy::kMaxUtilization;
    }
    return c;
  }

 private:
  // All begin together and fill the pool, and their answers want more of it. With every kind of
  // guess, with and without host memory.
  bool is_tight() const { return seed_ % 2 == 0; }

  Conditions conditions() {
    Conditions c;
    c.sequences = one_in(4) ? 2 + below(3) : 8;
    c.step_tokens = one_in(3) ? 512 : c.sequences + below(one_in(2) ? 12 : 100);
    c.head_rows = one_in(2) ? 16 : 1 + below(4);
    if (seed_ % 4 != 3) c.pages = (1 + below(2)) * pages_ + 1 + below(2);
    if (seed_ / 6 % 2 == 1) c.host_pages = 1 + below(12);
    if (one_in(5)) c.policy = static_cast<SchedulerPolicy>(below(3));
    c.overlap = !one_in(3);
    c.threads = 1 + below(3);
    c.guesser = static_cast<Guesser>(seed_ % 3);
    return c;
  }

  PromisedRequest any_request() {
    const unsigned seed =
        limits_.different > 0 ? static_cast<unsigned>(below(limits_.different)) : number();
    return RequestMaker(seed, pages_, limits_).make();
  }

  PromisedRequest request(int place) {
    PromisedRequest r = any_request();
    r.continues = place > 0 && one_in(4);
    if (r.continues) r.own = 1 + below(8);
    if (r.continues || one_in(2)) r.arrives = below(r.continues || one_in(3) ? 60 : 12);
    if (one_in(12)) r.cancelled = 1 + below(20);
    if (one_in(6)) r.priority = below(5) - 2;
    return r;
  }

  PromisedRequest tight_request() {
    PromisedRequest r = any_request();
    r.common = limits_.page_tokens / 2;  // no page in common
    r.own = pages_ * limits_.page_tokens - 2 - r.common;
    SamplingParams& p = r.sampling;
    p.beam_width = p.n = 1;
    p.best_of = 0;
    p.length_penalty = 1;
    p.ignore_eos = true;
    p.max_tokens += 5;
    return r;
  }

  unsigned seed_;
  const CaseLimits& limits_;
  std::int64_t pages_;  // that most prompts fill
};

}  // namespace

PromiseCase random_case(unsigned seed, const CaseLimits& limits) {
  return CaseMaker(seed, limits).make();
}

}  // namespace ingot::test
