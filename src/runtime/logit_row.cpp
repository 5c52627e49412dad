#include "runtime/logit_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>

namespace ingot {

namespace {

// The compilers' own vectors: four lanes fit every processor, and four of them hide the latency of
// an addition. A sum has sixteen lanes then.
using Floats = float __attribute__((vector_size(16)));
using Words = std::uint32_t __attribute__((vector_size(16)));
constexpr std::size_t kWidth = 4;
constexpr std::size_t kUnroll = 4;
constexpr std::size_t kLanes = kWidth * kUnroll;

inline Floats load(const float* at) {
  Floats x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

inline Floats all(float x) {
  return Floats{x, x, x, x};
}

// 2^y for y <= 0 (Cody and Waite: 2^n * 2^f, a polynomial on |f| <= 1/2, error below 2e-9).
inline Floats exp2_of(Floats y) {
  const Floats least = all(-125.0f);
  const Floats bounded = y < least ? least : y;
  const Floats shifted = bounded + 0x1.8p23f;  // rounds; n is in its low bits
  const Floats f = bounded - (shifted - 0x1.8p23f);
  Floats p = all(0.00015353361959569156f);
  p = p * f + 0.0013398875016719103f;
  p = p * f + 0.00961843691766262f;
  p = p * f + 0.055503323674201965f;
  p = p * f + 0.24022647738456726f;
  p = p * f + 0.6931471824645996f;
  p = p * f + 1.0f;
  const Words bits = std::bit_cast<Words>(p) + (std::bit_cast<Words>(shifted) << 23);
  return y < least ? all(0.0f) : std::bit_cast<Floats>(bits);
}

}  // namespace

RowPeak peak_of(std::span<const float> row) {
  const Floats most = all(std::numeric_limits<float>::max());
  Floats top[kUnroll];
  Words sound[kUnroll];
  for (std::size_t k = 0; k < kUnroll; ++k) {
    top[k] = all(kNoLogit);
    sound[k] = ~Words{};
  }
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes)
    for (std::size_t k = 0; k < kUnroll; ++k) {
      const Floats x = load(&row[i + k * kWidth]);
      top[k] = x > top[k] ? x : top[k];
      sound[k] &= std::bit_cast<Words>(x <= most);
    }
  RowPeak peak;
  for (; i < row.size(); ++i) {
    peak.largest = std::max(peak.largest, row[i]);
    peak.is_sound = peak.is_sound && row[i] <= std::numeric_limits<float>::max();
  }
  for (std::size_t k = 0; k < kUnroll; ++k)
    for (std::size_t lane = 0; lane < kWidth; ++lane) {
      peak.largest = std::max(peak.largest, top[k][lane]);
      peak.is_sound = peak.is_sound && sound[k][lane] != 0;
    }
  return peak;
}

std::size_t next_at_least(std::span<const float> row, float value, std::size_t from) {
  const Floats wanted = all(value);
  std::size_t i = from;
  for (; i + kLanes <= row.size(); i += kLanes) {
    Words found{};
    for (std::size_t k = 0; k < kUnroll; ++k)
      found |= std::bit_cast<Words>(load(&row[i + k * kWidth]) >= wanted);
    const auto halves = std::bit_cast<std::array<std::uint64_t, 2>>(found);
    if ((halves[0] | halves[1]) != 0) break;
  }
  while (i < row.size() && !(row[i] >= value)) ++i;
  return i;
}

Weigher::Weigher(float largest, double temperature)
    : largest_(largest),
      scale_(static_cast<float>(std::numbers::log2e / temperature)),
      temperature_(temperature) {}

float Weigher::operator()(float logit) const {
  return exp2_of(all((logit - largest_) * scale_))[0];
}

void Weigher::weights(std::span<const float> logits, std::span<float> out) const {
  std::size_t i = 0;
  for (; i + kWidth <= logits.size(); i += kWidth) {
    const Floats weights = exp2_of((load(&logits[i]) - largest_) * scale_);
    std::memcpy(&out[i], &weights, sizeof weights);
  }
  for (; i < logits.size(); ++i) out[i] = (*this)(logits[i]);
}

double Weigher::block_sum(std::span<const float> row) const {
  Floats lanes[kUnroll] = {};
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes)
    for (std::size_t k = 0; k < kUnroll; ++k)
      lanes[k] += exp2_of((load(&row[i + k * kWidth]) - largest_) * scale_);
  double sum = 0;
  for (; i < row.size(); ++i) sum += static_cast<double>((*this)(row[i]));
  for (const Floats& four : lanes)
    for (std::size_t lane = 0; lane < kWidth; ++lane) sum += static_cast<double>(four[lane]);
  return sum;
}

double Weigher::sum(std::span<const float> row) const {
  double total = 0;
  for (std::size_t at = 0; at < row.size(); at += kBlock)
    total += block_sum(row.subspan(at, std::min(kBlock, row.size() - at)));
  return total;
}

double Weigher::sum(std::span<const float> row, std::vector<double>& blocks) const {
  blocks.clear();
  double total = 0;
  for (std::size_t at = 0; at < row.size(); at += kBlock) {
    blocks.push_back(block_sum(row.subspan(at, std::min(kBlock, row.size() - at))));
    total += blocks.back();
  }
  return total;
}

double Weigher::logit_of(double weight) const {
  return static_cast<double>(largest_) + temperature_ * std::log(weight);
}

void log_softmax(std::span<const float> row, std::span<float> out) {
  const float largest = peak_of(row).largest;
  const double base = largest == kNoLogit
                          ? 0.0
                          : static_cast<double>(largest) + std::log(Weigher(largest, 1.0).sum(row));
  for (std::size_t i = 0; i < row.size(); ++i)
    out[i] = static_cast<float>(static_cast<double>(row[i]) - base);
}

}  // namespace ingot
