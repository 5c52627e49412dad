#include "tests/runtime/sampling_reference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace ingot::test {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

std::size_t times_in(const std::vector<std::int32_t>& tokens, std::size_t id) {
  return static_cast<std::size_t>(
      std::count(tokens.begin(), tokens.end(), static_cast<std::int32_t>(id)));
}

// Whether `token` would complete `word` behind `tokens`.
bool completes(std::vector<std::int32_t> tokens, std::int32_t token,
               const std::vector<std::int32_t>& word) {
  tokens.push_back(token);
  return tokens.size() >= word.size() && std::equal(word.rbegin(), word.rend(), tokens.rbegin());
}

bool repeats(std::vector<std::int32_t> tokens, std::int32_t token, std::size_t n) {
  tokens.push_back(token);
  if (tokens.size() <= n) return false;
  const auto last = tokens.end() - static_cast<std::ptrdiff_t>(n);
  for (auto it = tokens.begin(); it != last; ++it)
    if (std::equal(last, tokens.end(), it)) return true;
  return false;
}

// Keeps the first ones in `order` whose weights reach `part` of all; the others become 0.
void keep_mass(std::vector<double>& weight, const std::vector<std::size_t>& order, double part) {
  const double wanted = part * std::accumulate(weight.begin(), weight.end(), 0.0);
  double sum = 0;
  for (const std::size_t i : order) {
    const bool kept = sum < wanted;
    sum += weight[i];
    if (!kept) weight[i] = 0;
  }
}

std::vector<std::size_t> sorted_by(std::size_t n, const std::function<double(std::size_t)>& key) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

double decayed_top_p(const SamplingCase& c) {
  double p = c.params.top_p;
  if (c.params.top_p_decay == 1.0) return p;
  for (const std::int32_t id : c.answer)
    p = id == c.params.top_p_reset_id ? c.params.top_p
                                      : std::max(p * c.params.top_p_decay, c.params.top_p_min);
  return p;
}

// Surprise minus expected surprise is the mean of the weights' logarithms minus the own one.
void keep_typical(std::vector<double>& weight, const std::vector<double>& log_weight, double part) {
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  double mean = 0;
  for (std::size_t i = 0; i < weight.size(); ++i)
    if (weight[i] > 0) mean += weight[i] / total * log_weight[i];
  keep_mass(weight,
            sorted_by(weight.size(),
                      [&](std::size_t i) {
                        return weight[i] == 0 ? std::numeric_limits<double>::infinity()
                                              : std::abs(log_weight[i] - mean);
                      }),
            part);
}

}  // namespace

std::vector<double> reference_logits(const SamplingCase& c) {
  const SamplingParams& p = c.params;
  std::vector<std::int32_t> all = c.prompt;
  all.insert(all.end(), c.answer.begin(), c.answer.end());
  std::vector<double> x(c.logits.begin(), c.logits.end());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (p.logit_bias.contains(id)) x[i] += p.logit_bias.at(id);
    if (times_in(all, i) > 0)
      x[i] = x[i] > 0 ? x[i] / p.repetition_penalty : x[i] * p.repetition_penalty;
    const auto count = static_cast<double>(times_in(c.answer, i));
    if (count > 0) x[i] -= p.presence_penalty + p.frequency_penalty * count;
    bool banned = std::count(c.forbidden.begin(), c.forbidden.end(), id) > 0;
    banned = banned || (!c.allowed.empty() && !c.allowed[i]);
    for (const auto& word : p.bad_token_ids) banned = banned || completes(all, id, word);
    if (p.no_repeat_ngram_size > 0)
      banned = banned || repeats(all, id, static_cast<std::size_t>(p.no_repeat_ngram_size));
    if (banned) x[i] = kNever;
  }
  return x;
}

std::vector<double> reference_distribution(const SamplingCase& c) {
  const SamplingParams& p = c.params;
  const std::vector<double> x = reference_logits(c);
  std::vector<double> weight(x.size(), 0.0);
  const auto largest = std::max_element(x.begin(), x.end());
  if (*largest == kNever) return weight;
  if (p.temperature < 1e-5) {
    weight[static_cast<std::size_t>(largest - x.begin())] = 1;
    return weight;
  }
  std::vector<double> log_weight(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    log_weight[i] = (x[i] - *largest) / p.temperature;
    weight[i] = std::exp(log_weight[i]);
  }
  const std::vector<std::size_t> order = sorted_by(x.size(), [&](std::size_t i) { return -x[i]; });
  if (p.top_k > 0)
    for (std::size_t r = static_cast<std::size_t>(p.top_k); r < order.size(); ++r)
      weight[order[r]] = 0;
  if (const double top_p = decayed_top_p(c); top_p < 1) keep_mass(weight, order, top_p);
  for (double& w : weight)
    if (w < p.min_p) w = 0;  // the likeliest weighs 1
  if (p.typical_p < 1) keep_typical(weight, log_weight, p.typical_p);
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  for (double& w : weight) w /= total;
  return weight;
}

}  // namespace ingot::test
