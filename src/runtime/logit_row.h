#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ingot {

// Arithmetic over a row of logits, [vocab]. Sums have one order, whatever the compiler makes of
// the loops, so every result is a function of the row alone.

inline constexpr float kNoLogit = -std::numeric_limits<float>::infinity();

// An id outside the row is nothing that could come.
inline void ban(std::int32_t id, std::span<float> row) {
  if (id >= 0 && static_cast<std::size_t>(id) < row.size())
    row[static_cast<std::size_t>(id)] = kNoLogit;
}

struct RowPeak {
  float largest = kNoLogit;
  bool is_sound = true;  // no NaN and no +infinity; -infinity is a token that cannot be
};
RowPeak peak_of(std::span<const float> row);

// The lowest id from `from` on whose logit is at least `value`; row.size(): none.
std::size_t next_at_least(std::span<const float> row, float value, std::size_t from = 0);

// What makes a logit a weight: exp((logit - largest) / temperature), in f32 with a relative error
// below 1e-5, exactly 1 for the largest and 0 below 2^-125.
class Weigher {
 public:
  // `temperature` at least 1e-5.
  Weigher(float largest, double temperature);
  float operator()(float logit) const;
  // Of each logit; `out` is at least as long.
  void weights(std::span<const float> logits, std::span<float> out) const;
  // The sum over a row.
  double sum(std::span<const float> row) const;
  // Also the sums of its blocks of kBlock; `blocks` is filled anew.
  double sum(std::span<const float> row, std::vector<double>& blocks) const;
  // ln of the weight, in f64.
  double log_weight(float logit) const {
    return (static_cast<double>(logit) - static_cast<double>(largest_)) / temperature_;
  }
  // A logit at or above which lies everything that weighs at least `weight`, in (0, 1].
  double logit_of(double weight) const;

  static constexpr std::size_t kBlock = 256;

 private:
  double block_sum(std::span<const float> row) const;

  float largest_;
  float scale_;  // log2(e) / temperature
  double temperature_;
};

// Log-probabilities of a sound row of logits; `out` may be the row itself. All are -infinity where
// all logits are.
void log_softmax(std::span<const float> row, std::span<float> out);

}  // namespace ingot
