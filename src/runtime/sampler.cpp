#include "runtime/sampler.h"

#include "base/error.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

namespace ingot {

namespace {

constexpr double kGreedyBelow = 1e-5;

bool has_penalties(const SamplingParams& p) {
  return p.repetition_penalty != 1.0 || p.presence_penalty != 0.0 || p.frequency_penalty != 0.0;
}

bool changes_logits(const SamplingParams& p, const DrawContext& c) {
  return has_penalties(p) || !p.logit_bias.empty() || !p.bad_token_ids.empty() ||
         p.no_repeat_ngram_size > 0 || !c.forbidden.empty() || !c.token_mask.empty() ||
         (c.callback && *c.callback);
}

bool limits_count(const SamplingParams& p, std::span<const float> row) {
  return p.top_k > 0 && static_cast<std::size_t>(p.top_k) < row.size();
}

void refuse_unsound(const RowPeak& peak) {
  if (!peak.is_sound)
    fail(ErrorCode::kRequest, "[sampler] the model's logits are not numbers; the answer ends here");
}

void call_back(std::span<float> scores, const DrawContext& c) {
  try {
    (*c.callback)({.tokens = c.tokens, .prompt_tokens = c.prompt_tokens, .logits = scores});
  } catch (const std::exception& e) {
    fail(ErrorCode::kRequest, "[sampler.callback] it threw: {}", e.what());
  }
  if (!peak_of(scores).is_sound)
    fail(ErrorCode::kRequest, "[sampler.callback] it left NaN or +infinity among the logits");
}

// Tokens of prompt and answer for repetition (as transformers does), of the answer for the others.
void penalise(std::span<float> scores, const SamplingParams& p, const SamplingState& state) {
  const auto r = static_cast<float>(p.repetition_penalty);
  for (const TokenCounts::Entry& seen : state.counts()) {
    if (seen.in_answer == 0 && !seen.in_prompt) continue;  // taken back
    const auto id = static_cast<std::size_t>(seen.id);
    if (id >= scores.size()) continue;
    float& x = scores[id];
    x = x > 0 ? x / r : x * r;
    if (seen.in_answer > 0)
      x -= static_cast<float>(p.presence_penalty) +
           static_cast<float>(p.frequency_penalty) * static_cast<float>(seen.in_answer);
  }
}

void apply_mask(std::span<float> scores, std::span<const std::uint32_t> mask) {
  constexpr std::size_t kBits = 32;
  for (std::size_t at = 0; at < scores.size(); at += kBits) {
    const std::size_t end = std::min(at + kBits, scores.size());
    const std::size_t word = at / kBits;
    const auto allowed = word < mask.size() ? mask[word] : 0u;
    if (allowed == ~0u) continue;
    if (allowed == 0) {
      std::fill(scores.begin() + static_cast<std::ptrdiff_t>(at),
                scores.begin() + static_cast<std::ptrdiff_t>(end), kNoLogit);
      continue;
    }
    for (std::size_t i = at; i < end; ++i)
      scores[i] = (allowed >> (i - at) & 1u) != 0 ? scores[i] : kNoLogit;
  }
}

std::uint64_t mix(std::uint64_t z) {  // SplitMix64's (Steele et al., 2014)
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ull;

}  // namespace

void fail_where_none_is_allowed() {
  fail(ErrorCode::kRequest,
       "[sampler] no token is allowed: bad words, repeated n-grams, min_tokens and the grammar "
       "leave none");
}

double uniform_at(std::uint64_t seed, std::uint64_t position) {
  // Twice, so that neighbouring seeds do not correlate.
  std::uint64_t z = seed;
  for (int round = 0; round < 2; ++round) z = mix(z + kGolden * (position + 1));
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

std::uint64_t seed_of_answer(std::uint64_t seed, std::uint64_t index) {
  return index == 0 ? seed : mix(mix(seed + kGolden * index) ^ index);
}

void Sampler::reserve(std::size_t vocab) {
  logits_.reserve(vocab);
  blocks_.reserve(vocab / Weigher::kBlock + 1);
  reserve_top(vocab, top_);
  candidates_.reserve(vocab);
}

void Sampler::apply(std::span<float> scores, const SamplingParams& p, const DrawContext& c) {
  if (c.callback && *c.callback) call_back(scores, c);
  for (const auto& [id, bias] : p.logit_bias)
    if (static_cast<std::size_t>(id) < scores.size())
      scores[static_cast<std::size_t>(id)] += static_cast<float>(bias);
  if (has_penalties(p)) penalise(scores, p, c.state);
  for (const std::int32_t id : c.forbidden) ban(id, scores);
  c.state.ban_next(scores);
  if (!c.token_mask.empty()) apply_mask(scores, c.token_mask);
}

std::int32_t Sampler::draw(std::span<const float> logits, const SamplingParams& p,
                           const DrawContext& c) {
  std::span<const float> row = logits;
  RowPeak peak = peak_of(row);
  refuse_unsound(peak);
  if (changes_logits(p, c)) {
    logits_.assign(logits.begin(), logits.end());
    apply(logits_, p, c);
    row = logits_;
    peak = peak_of(row);
    refuse_unsound(peak);  // a tiny repetition penalty may make an infinity
  }
  if (peak.largest == kNoLogit) fail_where_none_is_allowed();
  if (p.temperature < kGreedyBelow)
    return static_cast<std::int32_t>(next_at_least(row, peak.largest));
  return pick(row, peak.largest, p, c);
}

std::int32_t Sampler::pick(std::span<const float> row, float largest, const SamplingParams& p,
                           const DrawContext& c) {
  const Weigher weigh(largest, p.temperature);
  const double u = uniform_at(c.seed, c.position);
  const double top_p = c.state.top_p();
  if (!limits_count(p, row) && top_p >= 1.0 && p.min_p == 0.0 && p.typical_p >= 1.0)
    return pick_from_all(row, weigh, u);
  const double total = gather(row, weigh, p, top_p);
  if (top_p < 1.0) candidates_.keep_likeliest(top_p * total);
  if (p.min_p > 0.0) candidates_.keep_logits(weigh.logit_of(p.min_p));
  if (p.typical_p < 1.0) candidates_.keep_typical(weigh, p.typical_p);
  return candidates_.pick(u);
}

// The block first, then the token in it.
std::int32_t Sampler::pick_from_all(std::span<const float> row, const Weigher& weigh, double u) {
  double left = u * weigh.sum(row, blocks_);
  std::size_t block = 0;
  // Rounding may leave the last blocks with nothing to give; a block that weighs nothing is no end.
  std::size_t last = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    if (blocks_[i] > 0) last = i;
  while (block < last && left >= blocks_[block]) left -= blocks_[block++];
  const std::size_t from = block * Weigher::kBlock;
  const std::size_t to = std::min(from + Weigher::kBlock, row.size());
  std::size_t chosen = from;
  for (std::size_t i = from; i < to; ++i) {
    const double weight = static_cast<double>(weigh(row[i]));
    if (weight == 0) continue;
    chosen = i;
    if (left < weight) break;
    left -= weight;
  }
  return static_cast<std::int32_t>(chosen);
}

// Fills candidates_ with what top_k leaves or, without it, with no less than top_p and min_p will.
// Returns the mass that top_p is a part of.
double Sampler::gather(std::span<const float> row, const Weigher& weigh, const SamplingParams& p,
                       double top_p) {
  if (limits_count(p, row)) {
    select_top(row, static_cast<std::size_t>(p.top_k), top_);
    candidates_.gather(row, *std::ranges::max_element(top_, likelier), weigh);
    return candidates_.mass();
  }
  const double total = top_p < 1.0 ? weigh.sum(row) : 0.0;
  // All that weigh less are together less than what top_p leaves out; half, for the rounding.
  const double below_top_p =
      top_p < 1.0 ? 0.5 * (1.0 - top_p) * total / static_cast<double>(row.size()) : 0.0;
  const double weight = std::max(p.min_p, below_top_p);
  Candidate worst{kNoLogit, std::numeric_limits<std::int32_t>::max()};
  if (weight > 0)
    worst.logit = std::nextafter(static_cast<float>(weigh.logit_of(weight)), kNoLogit);
  candidates_.gather(row, worst, weigh);
  return total;
}

}  // namespace ingot
