#include "base/error.h"
#include "models/decoder/config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ingot {

namespace {

std::vector<double> plain_frequencies(const RopeConfig& rope, double theta) {
  std::vector<double> f(static_cast<std::size_t>(rope.rotary_dim / 2));
  for (std::size_t i = 0; i < f.size(); ++i)
    f[i] = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(rope.rotary_dim));
  return f;
}

// Llama 3.1: long wavelengths are divided by the factor, short ones kept, those between blended.
void apply_llama3(const RopeConfig& rope, std::vector<double>& f) {
  const auto original = static_cast<double>(rope.original_max_position);
  for (double& x : f) {
    const double wavelength = 2 * std::numbers::pi / x;
    if (wavelength < original / rope.high_freq_factor) continue;
    if (wavelength > original / rope.low_freq_factor) {
      x /= rope.factor;
    } else {
      const double smooth = (original / wavelength - rope.low_freq_factor) /
                            (rope.high_freq_factor - rope.low_freq_factor);
      x = (1 - smooth) * x / rope.factor + smooth * x;
    }
  }
}

// YaRN (Peng et al., 2023): dimensions that turn often keep their frequency, slow ones are
// interpolated.
void apply_yarn(const RopeConfig& rope, std::int64_t original, std::vector<double>& f) {
  const auto dim = static_cast<double>(rope.rotary_dim);
  const auto correction = [&](double rotations) {
    return dim * std::log(static_cast<double>(original) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = correction(rope.beta_fast);
  double high = correction(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f[i] = f[i] / rope.factor * ramp + f[i] * (1 - ramp);
  }
}

double yarn_scale(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  const auto m = [&](double mscale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(rope.factor) + 1.0;
  };
  if (rope.mscale != 0 && rope.mscale_all_dim != 0) return m(rope.mscale) / m(rope.mscale_all_dim);
  return m(1.0);
}

void divide(std::vector<double>& f, const std::vector<double>& by, const char* what) {
  if (by.size() != f.size())
    fail(ErrorCode::kBadInput, "[config.rope] {} has {} values, wanted {}", what, by.size(),
         f.size());
  for (std::size_t i = 0; i < f.size(); ++i) f[i] /= by[i];
}

std::vector<float> narrowed(const std::vector<double>& f) {
  return {f.begin(), f.end()};
}

RopeTables computed(const RopeConfig& rope, std::int64_t max_position, std::int64_t max_seq) {
  RopeTables tables;
  std::vector<double> f = plain_frequencies(rope, rope.theta);
  const std::int64_t original =
      rope.original_max_position > 0 ? rope.original_max_position : max_position;
  switch (rope.scaling) {
    case RopeScaling::kNone:
      break;
    case RopeScaling::kLinear:
      for (double& x : f) x /= rope.factor;
      break;
    case RopeScaling::kLlama3:
      apply_llama3(rope, f);
      break;
    case RopeScaling::kYarn:
      apply_yarn(rope, original, f);
      tables.scale = yarn_scale(rope);
      break;
    case RopeScaling::kDynamic: {
      // The published rule stretches theta with the length so far, which would rotate one sequence
      // by several tables. A request is rotated by one: plain up to the trained length, else
      // stretched for the engine's longest.
      if (max_seq <= max_position) break;
      const double ratio = static_cast<double>(max_seq) / static_cast<double>(max_position);
      const auto dim = static_cast<double>(rope.rotary_dim);
      const double theta =
          rope.theta * std::pow(rope.factor * ratio - (rope.factor - 1), dim / (dim - 2));
      tables.rows = {narrowed(f), narrowed(plain_frequencies(rope, theta))};
      tables.long_from = max_position;
      return tables;
    }
    case RopeScaling::kLongRope: {
      std::vector<double> far = f;
      divide(f, rope.short_factors, "short_factor");
      divide(far, rope.long_factors, "long_factor");
      const double stretch = static_cast<double>(max_position) / static_cast<double>(original);
      const double factor = stretch > 1 ? stretch : rope.factor;
      tables.scale =
          rope.attention_factor ? *rope.attention_factor
          : factor <= 1         ? 1.0
                        : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
      tables.rows = {narrowed(f), narrowed(far)};
      tables.long_from = original;
      return tables;
    }
  }
  if (!rope.divisors.empty()) divide(f, rope.divisors, "rope_freqs");
  tables.rows = {narrowed(f)};
  return tables;
}

}  // namespace

RopeTables rope_tables(const RopeConfig& rope, std::int64_t max_position, std::int64_t max_seq) {
  RopeTables tables = computed(rope, max_position, max_seq);
  bool finite = std::isfinite(tables.scale);
  for (const auto& row : tables.rows)
    for (const float x : row) finite = finite && std::isfinite(x);
  if (!finite)
    fail(ErrorCode::kBadInput,
         "[config.rope] the parameters of the scaling give frequencies that are no numbers");
  return tables;
}

}  // namespace ingot
