#include "runtime/sampler.h"

#include "base/error.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ingot {

namespace {

constexpr double kGreedyBelow = 1e-5;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Blocks keep the loop free of a branch per element, so that it vectorises; the lowest id wins
// among equals.
std::int32_t argmax(std::span<const float> logits) {
  std::size_t best = 0;
  float largest = kMinusInfinity;
  constexpr std::size_t kBlock = 256;
  for (std::size_t at = 0; at < logits.size(); at += kBlock) {
    const std::size_t end = std::min(at + kBlock, logits.size());
    float block = kMinusInfinity;
    for (std::size_t i = at; i < end; ++i) block = logits[i] > block ? logits[i] : block;
    if (block > largest) {
      largest = block;
      best = static_cast<std::size_t>(std::find(logits.begin() + static_cast<std::ptrdiff_t>(at),
                                                logits.begin() + static_cast<std::ptrdiff_t>(end),
                                                block) -
                                      logits.begin());
    }
  }
  return static_cast<std::int32_t>(best);
}

void refuse_nan(std::span<const float> logits) {
  // A sum is NaN when a term is; infinities of both signs would be as wrong.
  float sum = 0;
  for (const float x : logits) sum += x * 0.0f;
  if (!(sum == 0.0f)) {
    for (const float x : logits)
      if (std::isnan(x) || x == std::numeric_limits<float>::infinity())
        fail(ErrorCode::kRequest,
             "[sampler] the model's logits are not numbers; the answer ends here");
  }
}

bool is_plain_greedy(const SamplingParams& p) {
  return p.temperature < kGreedyBelow && p.repetition_penalty == 1.0 && p.presence_penalty == 0.0 &&
         p.frequency_penalty == 0.0;
}

}  // namespace

double uniform_at(std::uint64_t seed, std::uint64_t position) {
  // SplitMix64 over the pair (Steele et al., 2014), twice, so that neighbouring seeds do not
  // correlate.
  std::uint64_t z = seed;
  for (int round = 0; round < 2; ++round) {
    z += 0x9e3779b97f4a7c15ull * (position + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
  }
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

std::string check_sampling(const SamplingParams& p, std::int64_t vocab) {
  const auto within = [](double x, double low, double high) { return x >= low && x <= high; };
  if (!within(p.temperature, 0, 1e6))
    return fmt::format("temperature {}: wanted 0 to 1000000", p.temperature);
  if (p.top_k < 0) return fmt::format("top_k {}: wanted 0 (all) or more", p.top_k);
  if (!(p.top_p > 0 && p.top_p <= 1)) return fmt::format("top_p {}: wanted (0, 1]", p.top_p);
  if (!within(p.min_p, 0, 1)) return fmt::format("min_p {}: wanted [0, 1]", p.min_p);
  if (!within(p.repetition_penalty, 1e-6, 1e6))  // a float, and so are logits divided by it
    return fmt::format("repetition_penalty {}: wanted 0.000001 to 1000000", p.repetition_penalty);
  if (!within(p.presence_penalty, -100, 100))
    return fmt::format("presence_penalty {}: wanted -100 to 100", p.presence_penalty);
  if (!within(p.frequency_penalty, -100, 100))
    return fmt::format("frequency_penalty {}: wanted -100 to 100", p.frequency_penalty);
  if (p.max_tokens < 0)
    return fmt::format("max_tokens {}: wanted 0 (as many as fit) or more", p.max_tokens);
  if (p.min_tokens < 0) return fmt::format("min_tokens {}: wanted 0 or more", p.min_tokens);
  if (p.max_tokens > 0 && p.min_tokens > p.max_tokens)
    return fmt::format("min_tokens {}: more than max_tokens {}", p.min_tokens, p.max_tokens);
  if (p.logprobs < -1 || p.logprobs > vocab)
    return fmt::format("logprobs {}: wanted 0 to {}", p.logprobs, vocab);
  for (const std::int32_t id : p.stop_token_ids)
    if (id < 0 || id >= vocab)
      return fmt::format("stop_token_ids: {} is outside the vocabulary of {}", id, vocab);
  for (const std::string& s : p.stop)
    if (s.empty()) return "stop: an empty string ends nothing; leave it out";
  return {};
}

// Counts of answer tokens for presence and frequency; prompt tokens too for repetition (as
// transformers does).
void Sampler::penalise(const SamplingParams& p, const DrawContext& c) {
  if (p.repetition_penalty == 1.0 && p.presence_penalty == 0.0 && p.frequency_penalty == 0.0)
    return;
  seen_.clear();
  counts_.resize(std::max(counts_.size(), logits_.size()));
  for (std::size_t i = 0; i < c.tokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(c.tokens[i]);
    if (id >= logits_.size()) continue;
    if (counts_[id] == 0) {
      counts_[id] = 1;
      seen_.push_back(id);
    }
    if (i >= c.prompt_tokens) ++counts_[id];
  }
  const auto r = static_cast<float>(p.repetition_penalty);
  for (const std::size_t id : seen_) {
    const std::int32_t count = std::exchange(counts_[id], 0) - 1;
    float& x = logits_[id];
    x = x > 0 ? x / r : x * r;
    if (count > 0)
      x -= static_cast<float>(p.presence_penalty) +
           static_cast<float>(p.frequency_penalty) * static_cast<float>(count);
  }
}

std::int32_t Sampler::pick(const SamplingParams& p, const DrawContext& c) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits_.size(); ++i)
    if (logits_[i] != kMinusInfinity)
      candidates_.push_back({logits_[i], static_cast<std::int32_t>(i)});
  if (candidates_.empty()) fail(ErrorCode::kRequest, "[sampler] no token is allowed");
  // Likeliest first; the id decides among equals, so the order is total.
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  std::size_t kept = candidates_.size();
  if (p.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(p.top_k));
  if (kept < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept),
                     candidates_.end(), before);
    candidates_.resize(kept);
  }
  // min_p needs no order: less likely than min_p times the likeliest is a distance in logits.
  const float largest = std::min_element(candidates_.begin(), candidates_.end(), before)->logit;
  const double scale = 1.0 / p.temperature;
  const auto weight = [&](const Candidate& x) {
    return std::exp((static_cast<double>(x.logit) - largest) * scale);
  };
  std::sort(candidates_.begin(), candidates_.end(), before);

  double total = 0;
  for (const Candidate& x : candidates_) total += weight(x);
  if (p.top_p < 1.0) {
    double sum = 0;
    std::size_t n = 0;
    while (n < candidates_.size() && sum < p.top_p * total) sum += weight(candidates_[n++]);
    candidates_.resize(std::max<std::size_t>(1, n));
  }
  if (p.min_p > 0) {
    std::size_t n = 0;
    while (n < candidates_.size() && weight(candidates_[n]) >= p.min_p) ++n;
    candidates_.resize(std::max<std::size_t>(1, n));
  }
  total = 0;
  for (const Candidate& x : candidates_) total += weight(x);
  double left = uniform_at(c.seed, c.tokens.size()) * total;
  for (const Candidate& x : candidates_) {
    left -= weight(x);
    if (left < 0) return x.id;
  }
  return candidates_.back().id;
}

std::int32_t Sampler::draw(std::span<const float> logits, const SamplingParams& params,
                           const DrawContext& context) {
  refuse_nan(logits);
  if (is_plain_greedy(params) && context.forbidden.empty()) return argmax(logits);
  logits_.assign(logits.begin(), logits.end());
  for (const std::int32_t id : context.forbidden)
    if (id >= 0 && static_cast<std::size_t>(id) < logits_.size())
      logits_[static_cast<std::size_t>(id)] = kMinusInfinity;
  penalise(params, context);
  if (params.temperature < kGreedyBelow) return argmax(logits_);
  return pick(params, context);
}

TokenLogprob Sampler::logprob(std::span<const float> logits, std::int32_t token, std::int32_t top) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  const double base = largest + std::log(sum);
  TokenLogprob result{.token = token,
                      .logprob = static_cast<float>(logits[static_cast<std::size_t>(token)] - base),
                      .top = {}};
  if (top <= 0) return result;
  std::vector<std::int32_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
  const auto count = std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      const float x = logits[static_cast<std::size_t>(a)];
                      const float y = logits[static_cast<std::size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::int32_t id = order[static_cast<std::size_t>(i)];
    result.top.emplace_back(id, static_cast<float>(logits[static_cast<std::size_t>(id)] - base));
  }
  return result;
}

}  // namespace ingot
