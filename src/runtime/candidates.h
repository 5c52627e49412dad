#pragma once

#include "runtime/logit_row.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

struct Candidate {
  float logit;
  std::int32_t id;
};

// Likeliest first; the id decides among equals, so the order is total.
inline bool likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The `count` likeliest of a row, in no order, or as many as are possible. O(vocab + count).
void select_top(std::span<const float> row, std::size_t count, std::vector<Candidate>& out);
// As much as select_top() needs for any count of a row of `vocab`.
void reserve_top(std::size_t vocab, std::vector<Candidate>& out);

// The tokens that a draw may still take, in the order of their ids, and what they weigh. Every call
// costs O(size), where a sort would pay a logarithm for an order that nobody needs.
class CandidateSet {
 public:
  // Nothing is allocated for rows of up to `vocab`.
  void reserve(std::size_t vocab);
  // What is no less likely than `worst`, of a row; never what is -infinity.
  void gather(std::span<const float> row, const Candidate& worst, const Weigher& weigh);

  double mass() const;
  // Keeps those with at least this logit; never none: the likeliest stays.
  void keep_logits(double least);
  // Keeps the smallest set of likeliest whose mass reaches `mass`.
  void keep_likeliest(double mass);
  // Keeps the smallest set whose mass reaches `part` of all, of those whose surprise, -ln of their
  // probability, is nearest to the expected one.
  void keep_typical(const Weigher& weigh, double part);
  // The inverse of the distribution function at u in [0, 1).
  std::int32_t pick(double u) const;

 private:
  // In an order of preference, smallest rank first; of equals the lower id, which is the lower
  // index.
  struct Place {
    double rank;
    std::size_t index;
    auto operator<=>(const Place&) const = default;
  };
  void keep_best_ranks(double mass);
  Place last_within(double mass);
  Place last_within(std::span<Place> places, double mass) const;
  template <typename Keeps>
  void keep_if(const Keeps& keeps);

  std::size_t size_ = 0;  // of the next four, which are as long as a row
  std::vector<float> logits_;
  std::vector<float> weights_;
  std::vector<std::int32_t> ids_;
  std::vector<double> ranks_;
  std::vector<double> bucket_mass_;
  std::vector<Place> places_;
};

}  // namespace ingot
