#include "runtime/candidates.h"

#include "base/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ingot {

namespace {

// Before the worst of them is known, and between two looks at it, so many more are kept.
constexpr std::size_t kSlack = 256;
constexpr std::size_t kBlock = 64;
constexpr std::size_t kBuckets = 1024;
constexpr std::size_t kFewPlaces = 512;  // not worth buckets

}  // namespace

void select_top(std::span<const float> row, std::size_t count, std::vector<Candidate>& out) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  out.clear();
  if (count == 0) return;
  count = std::min(count, row.size());
  const std::size_t full = count + std::max(count, kSlack);
  const auto keep = [&] {
    const auto worst = out.begin() + static_cast<std::ptrdiff_t>(count) - 1;
    std::nth_element(out.begin(), worst, out.end(), likelier);
    out.resize(count);
  };
  float bar = std::numeric_limits<float>::lowest();
  for (std::size_t i = next_at_least(row, bar); i < row.size(); i = next_at_least(row, bar, i)) {
    out.push_back({row[i], static_cast<std::int32_t>(i)});
    ++i;
    if (out.size() < full) continue;
    keep();
    // Of equals the lower ids, which came first, are kept.
    bar = std::nextafter(out.back().logit, kInfinity);
  }
  if (out.size() > count) keep();
}

void reserve_top(std::size_t vocab, std::vector<Candidate>& out) {
  out.reserve(vocab + std::max(vocab, kSlack));
}

void CandidateSet::reserve(std::size_t vocab) {
  logits_.reserve(vocab);
  weights_.reserve(vocab);
  ids_.reserve(vocab);
  ranks_.reserve(vocab);
  places_.reserve(vocab);
  bucket_mass_.reserve(kBuckets);
}

void CandidateSet::gather(std::span<const float> row, const Candidate& worst,
                          const Weigher& weigh) {
  if (logits_.size() < row.size()) {
    logits_.resize(row.size());
    weights_.resize(row.size());
    ids_.resize(row.size());
    ranks_.resize(row.size());
    places_.reserve(row.size());
    bucket_mass_.resize(kBuckets);
  }
  size_ = 0;
  const float least = std::max(worst.logit, std::numeric_limits<float>::lowest());
  std::size_t i = next_at_least(row, least);
  while (i < row.size()) {
    // Without a branch a token: where many pass, nobody could guess which.
    const std::size_t end = std::min(i + kBlock, row.size());
    for (; i < end; ++i) {
      const Candidate x{row[i], static_cast<std::int32_t>(i)};
      logits_[size_] = x.logit;
      ids_[size_] = x.id;
      size_ += x.logit >= least && (x.logit != worst.logit || x.id <= worst.id) ? 1 : 0;
    }
    i = next_at_least(row, least, i);
  }
  check(size_ > 0, "the likeliest token is a candidate");
  weigh.weights(std::span(logits_).first(size_), weights_);
}

double CandidateSet::mass() const {
  double sum = 0;
  for (std::size_t i = 0; i < size_; ++i) sum += static_cast<double>(weights_[i]);
  return sum;
}

template <typename Keeps>
void CandidateSet::keep_if(const Keeps& keeps) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    logits_[kept] = logits_[i];
    weights_[kept] = weights_[i];
    ids_[kept] = ids_[i];
    kept += keeps(i) ? 1 : 0;
  }
  size_ = kept;
}

void CandidateSet::keep_logits(double least) {
  keep_if([&](std::size_t i) { return static_cast<double>(logits_[i]) >= least; });
}

void CandidateSet::keep_likeliest(double mass) {
  for (std::size_t i = 0; i < size_; ++i) ranks_[i] = -static_cast<double>(logits_[i]);
  keep_best_ranks(mass);
}

void CandidateSet::keep_typical(const Weigher& weigh, double part) {
  double total = 0;
  double weighted = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const auto weight = static_cast<double>(weights_[i]);
    total += weight;
    if (weight > 0) weighted += weight * weigh.log_weight(logits_[i]);
  }
  // Surprise is ln(total) - log_weight, so its distance from its mean is that of log_weight.
  const double mean = weighted / total;
  for (std::size_t i = 0; i < size_; ++i) ranks_[i] = std::abs(weigh.log_weight(logits_[i]) - mean);
  keep_best_ranks(part * total);
}

void CandidateSet::keep_best_ranks(double mass) {
  const Place last = last_within(mass);
  keep_if([&](std::size_t i) { return Place{ranks_[i], i} <= last; });
}

// The last place of the smallest set of best ranks whose mass reaches `mass`, or of all. Buckets
// over the range of ranks narrow it down to a few places.
CandidateSet::Place CandidateSet::last_within(double mass) {
  places_.clear();
  const auto take = [&](std::size_t i) { places_.push_back({ranks_[i], i}); };
  if (size_ <= kFewPlaces) {
    for (std::size_t i = 0; i < size_; ++i) take(i);
    return last_within(places_, mass);
  }
  const auto [low, high] = std::minmax_element(ranks_.data(), ranks_.data() + size_);
  const double first_rank = *low;
  const double range = *high - first_rank;
  const bool spreads = range > std::numeric_limits<double>::min();
  const double scale = spreads ? static_cast<double>(kBuckets) / range : 0.0;
  const std::size_t last_bucket = spreads ? kBuckets - 1 : 0;  // of the worst rank
  const auto bucket_of = [&](std::size_t i) {
    return std::min(static_cast<std::size_t>((ranks_[i] - first_rank) * scale), last_bucket);
  };
  std::ranges::fill(bucket_mass_, 0.0);
  for (std::size_t i = 0; i < size_; ++i)
    bucket_mass_[bucket_of(i)] += static_cast<double>(weights_[i]);
  std::size_t bucket = 0;
  while (bucket < last_bucket && bucket_mass_[bucket] < mass) mass -= bucket_mass_[bucket++];
  for (std::size_t i = 0; i < size_; ++i)
    if (bucket_of(i) == bucket) take(i);
  return last_within(places_, mass);
}

CandidateSet::Place CandidateSet::last_within(std::span<Place> places, double mass) const {
  check(!places.empty(), "a set of candidates is never empty");
  auto first = places.begin();
  auto last = places.end();
  while (last - first > 1) {
    const auto middle = first + (last - first) / 2;
    std::nth_element(first, middle, last);
    double half = 0;
    for (auto it = first; it != middle; ++it) half += static_cast<double>(weights_[it->index]);
    if (half >= mass) {
      last = middle;
    } else {
      mass -= half;
      first = middle;
    }
  }
  return *first;
}

std::int32_t CandidateSet::pick(double u) const {
  double left = u * mass();
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < size_; ++i) {
    const auto weight = static_cast<double>(weights_[i]);
    if (weight == 0) continue;
    chosen = i;
    if (left < weight) break;
    left -= weight;
  }
  return ids_[chosen];
}

}  // namespace ingot
