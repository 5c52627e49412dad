#include "runtime/check_sampling.h"

#include <fmt/core.h>

#include <span>
#include <string_view>

namespace ingot {

namespace {

constexpr std::size_t kMaxBadWords = 1024;
constexpr std::size_t kMaxBadTokens = 256;  // of one
constexpr std::size_t kMaxBadBytes = 256;   // of one
constexpr std::size_t kMaxStops = 1024;
constexpr std::size_t kMaxStopBytes = 65536;

// All comparisons are false for NaN.
bool within(double x, double low, double high) {
  return x >= low && x <= high;
}

std::string out_of_range(std::string_view field, double value, std::string_view wanted) {
  return fmt::format("{} {}: wanted {}", field, value, wanted);
}

std::string beyond(std::string_view field, std::int64_t count, const CountBounds& bounds) {
  return fmt::format("{} {}: wanted {}", field, count, bounds.words());
}

std::string check_id(std::string_view field, std::int64_t id, std::int64_t vocab) {
  if (id >= 0 && id < vocab) return {};
  return fmt::format("{}: {} is outside the vocabulary of {}", field, id, vocab);
}

std::string check_draw(const SamplingParams& p, std::int64_t vocab) {
  if (!within(p.temperature, 0, 1e6))
    return out_of_range("temperature", p.temperature, "0 to 1000000");
  if (p.top_k < 0) return fmt::format("top_k {}: wanted 0 (all) or more", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) return out_of_range("top_p", p.top_p, "(0, 1]");
  if (!(p.top_p_decay > 0 && p.top_p_decay <= 1))
    return out_of_range("top_p_decay", p.top_p_decay, "(0, 1]");
  if (!(p.top_p_min > 0 && p.top_p_min <= 1))
    return out_of_range("top_p_min", p.top_p_min, "(0, 1]");
  if (p.top_p_decay < 1 && p.top_p_min > p.top_p)
    return fmt::format("top_p_min {}: more than top_p {}", p.top_p_min, p.top_p);
  if (p.top_p_reset_id < -1 || p.top_p_reset_id >= vocab)
    return check_id("top_p_reset_id", p.top_p_reset_id, vocab);
  if (!within(p.min_p, 0, 1)) return out_of_range("min_p", p.min_p, "[0, 1]");
  if (!(p.typical_p > 0 && p.typical_p <= 1))
    return out_of_range("typical_p", p.typical_p, "(0, 1]");
  return {};
}

std::string check_penalties(const SamplingParams& p, std::int64_t vocab) {
  if (!within(p.repetition_penalty, 1e-6, 1e6))  // a float, and so are logits divided by it
    return out_of_range("repetition_penalty", p.repetition_penalty, "0.000001 to 1000000");
  if (!within(p.presence_penalty, -100, 100))
    return out_of_range("presence_penalty", p.presence_penalty, "-100 to 100");
  if (!within(p.frequency_penalty, -100, 100))
    return out_of_range("frequency_penalty", p.frequency_penalty, "-100 to 100");
  if (!kNgramSizes.hold(p.no_repeat_ngram_size))
    return beyond("no_repeat_ngram_size", p.no_repeat_ngram_size, kNgramSizes);
  for (const auto& [id, bias] : p.logit_bias) {
    if (std::string wrong = check_id("logit_bias", id, vocab); !wrong.empty()) return wrong;
    if (!within(bias, -100, 100))
      return fmt::format("logit_bias {} of token {}: wanted -100 to 100", bias, id);
  }
  return {};
}

std::string check_bad_words(const SamplingParams& p, std::int64_t vocab) {
  const std::size_t count = p.bad_words.size() + p.bad_token_ids.size();
  if (count > kMaxBadWords)
    return fmt::format("{} holds {} entries: wanted at most {}",
                       p.bad_words.empty() ? "bad_token_ids" : "bad_words", count, kMaxBadWords);
  for (const std::string& word : p.bad_words) {
    if (word.empty()) return "bad_words: an empty string forbids nothing; leave it out";
    if (word.size() > kMaxBadBytes)
      return fmt::format("bad_words: an entry of {} bytes; wanted at most {}", word.size(),
                         kMaxBadBytes);
  }
  for (const std::vector<std::int32_t>& word : p.bad_token_ids) {
    if (word.empty()) return "bad_token_ids: an empty sequence forbids nothing; leave it out";
    if (word.size() > kMaxBadTokens)
      return fmt::format("bad_token_ids: an entry of {} ids; wanted at most {}", word.size(),
                         kMaxBadTokens);
    for (const std::int32_t id : word)
      if (std::string wrong = check_id("bad_token_ids", id, vocab); !wrong.empty()) return wrong;
  }
  return {};
}

std::string check_end(const SamplingParams& p, std::int64_t vocab) {
  if (p.max_tokens < 0)
    return fmt::format("max_tokens {}: wanted 0 (as many as fit) or more", p.max_tokens);
  if (p.min_tokens < 0) return fmt::format("min_tokens {}: wanted 0 or more", p.min_tokens);
  if (p.max_tokens > 0 && p.min_tokens > p.max_tokens)
    return fmt::format("min_tokens {}: more than max_tokens {}", p.min_tokens, p.max_tokens);
  for (const std::int32_t id : p.stop_token_ids)
    if (std::string wrong = check_id("stop_token_ids", id, vocab); !wrong.empty()) return wrong;
  if (p.stop.size() > kMaxStops)
    return fmt::format("stop holds {} texts: wanted at most {}", p.stop.size(), kMaxStops);
  std::size_t bytes = 0;
  for (const std::string& s : p.stop) {
    if (s.empty()) return "stop: an empty string ends nothing; leave it out";
    bytes += s.size();
  }
  if (bytes > kMaxStopBytes)
    return fmt::format("stop holds {} bytes: wanted at most {}", bytes, kMaxStopBytes);
  return {};
}

std::string check_answers(const SamplingParams& p, std::int64_t vocab) {
  if (!kAnswers.hold(p.n)) return beyond("n", p.n, kAnswers);
  if (p.best_of != 0 && (p.best_of < p.n || !kAnswers.hold(p.best_of)))
    return fmt::format("best_of {}: wanted n, which is {}, to {}", p.best_of, p.n, kAnswers.high);
  if (p.logprobs < -1 || p.logprobs > vocab)
    return fmt::format("logprobs {}: wanted 0 to {}", p.logprobs, vocab);
  if (p.prompt_logprobs < -1 || p.prompt_logprobs > vocab)
    return fmt::format("prompt_logprobs {}: wanted 0 to {}", p.prompt_logprobs, vocab);
  return {};
}

std::string check_beams(const SamplingParams& p) {
  if (!kAnswers.hold(p.beam_width)) return beyond("beam_width", p.beam_width, kAnswers);
  if (!within(p.length_penalty, -10, 10))
    return out_of_range("length_penalty", p.length_penalty, "-10 to 10");
  if (!within(p.beam_search_diversity_rate, 0, 1e6))
    return out_of_range("beam_search_diversity_rate", p.beam_search_diversity_rate, "0 to 1000000");
  const auto misplaced = [](std::string_view field, double value, double wanted, bool beams) {
    return fmt::format("{} {}: wanted {} {} beams", field, value, wanted,
                       beams ? "with" : "without");
  };
  if (p.beam_width == 1) {
    if (p.length_penalty != 1) return misplaced("length_penalty", p.length_penalty, 1, false);
    if (p.early_stopping != EarlyStopping::kHeuristic)
      return "early_stopping: wanted false without beams";
    if (p.beam_search_diversity_rate != 0)
      return misplaced("beam_search_diversity_rate", p.beam_search_diversity_rate, 0, false);
    return {};
  }
  if (p.n > p.beam_width) return fmt::format("n {}: more than beam_width {}", p.n, p.beam_width);
  if (p.best_of != 0 && p.best_of != p.beam_width)
    return fmt::format("best_of {}: wanted 0 or beam_width, which is {}", p.best_of, p.beam_width);
  if (p.temperature != 0 && p.temperature != 1)
    return fmt::format("temperature {}: a beam search draws nothing; wanted 0 or 1", p.temperature);
  if (p.top_k != 0) return misplaced("top_k", p.top_k, 0, true);
  if (p.top_p != 1) return misplaced("top_p", p.top_p, 1, true);
  if (p.top_p_decay != 1) return misplaced("top_p_decay", p.top_p_decay, 1, true);
  if (p.min_p != 0) return misplaced("min_p", p.min_p, 0, true);
  if (p.typical_p != 1) return misplaced("typical_p", p.typical_p, 1, true);
  return {};
}

}  // namespace

std::string CountBounds::words() const {
  return said.empty() ? fmt::format("{} to {}", low, high) : std::string(said);
}

std::string check_sampling(const SamplingParams& p, std::int64_t vocab) {
  std::string wrong = check_draw(p, vocab);
  if (wrong.empty()) wrong = check_penalties(p, vocab);
  if (wrong.empty()) wrong = check_bad_words(p, vocab);
  if (wrong.empty()) wrong = check_end(p, vocab);
  if (wrong.empty()) wrong = check_answers(p, vocab);
  if (wrong.empty()) wrong = check_beams(p);
  return wrong;
}

}  // namespace ingot
