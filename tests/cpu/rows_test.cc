#include "cpu/simd/rows.h"

#include "base/half.h"
#include "cpu/kernel_maker.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace ingot::cpu {
namespace {

std::vector<Tier> tiers_here() {
  std::vector<Tier> tiers;
  for (const Tier tier : {Tier::kGeneric, Tier::kAvx2, Tier::kAvx512})
    if (tier <= best_tier()) tiers.push_back(tier);
  return tiers;
}

std::vector<float> normals(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(CpuRows, AnglesAreRightFarOutAndTheSameOnEveryTier) {
  std::vector<float> inv_freq;
  for (int i = 0; i < 37; ++i) inv_freq.push_back(std::pow(10000.0f, -static_cast<float>(i) / 37));
  const std::size_t n = inv_freq.size();
  for (const float position : {0.0f, 1.0f, 17.0f, 4095.0f, 131071.0f, 1000003.0f}) {
    std::vector<float> first;
    for (const Tier tier : tiers_here()) {
      std::vector<float> out(2 * n);
      row_kernels(tier).angles({.position = position,
                                .inv_freq = inv_freq.data(),
                                .n = static_cast<std::int64_t>(n),
                                .scale = 1,
                                .cos = out.data(),
                                .sin = out.data() + n});
      for (std::size_t i = 0; i < n; ++i) {
        const double angle = position * inv_freq[i];
        ASSERT_NEAR(out[i], std::cos(angle), 6.1e-8) << position << " " << i;
        ASSERT_NEAR(out[n + i], std::sin(angle), 6.1e-8) << position << " " << i;
      }
      if (first.empty()) first = out;
      EXPECT_TRUE(same_bits(first, out)) << tier_name(tier);
    }
  }
}

TEST(CpuRows, NormsAreRightAndTheSameOnEveryTier) {
  for (const std::size_t n : {1u, 31u, 37u, 64u, 576u, 4097u}) {
    const std::vector<float> x = normals(n, 1);
    const std::vector<float> weight = normals(n, 2);
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    std::vector<float> first;
    for (const Tier tier : tiers_here()) {
      std::vector<float> out = x;  // in place
      row_kernels(tier).rms_norm(out.data(), weight.data(), 1e-5f, static_cast<std::int64_t>(n),
                                 out.data());
      for (std::size_t i = 0; i < n; ++i)
        ASSERT_NEAR(out[i], x[i] * scale * weight[i], 1e-6 * (1 + std::fabs(out[i])));
      if (first.empty()) first = out;
      EXPECT_TRUE(same_bits(first, out)) << tier_name(tier) << " " << n;
    }
  }
}

TEST(CpuRows, RoundsToBf16AsStorageDoes) {
  std::vector<float> values = normals(1000, 3);
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const float v : {0.0f, -0.0f, 1e-45f, -1e-40f, kMax, -kMax,
                        std::numeric_limits<float>::infinity(), std::nanf(""), -std::nanf("")})
    values.push_back(v);
  // Ties, and NaN whose upper half alone is an infinity.
  for (const std::uint32_t bits : {0x3f808000u, 0x3f818000u, 0x3f807fffu, 0x7f800001u, 0xff80ffffu})
    values.push_back(std::bit_cast<float>(bits));
  for (const Tier tier : tiers_here()) {
    std::vector<std::uint16_t> halves(values.size());
    row_kernels(tier).to_bf16(values.data(), static_cast<std::int64_t>(values.size()),
                              halves.data());
    std::vector<float> back(values.size());
    row_kernels(tier).from_bf16(halves.data(), static_cast<std::int64_t>(halves.size()),
                                back.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(halves[i], f32_to_bf16(values[i])) << tier_name(tier) << " " << values[i];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(back[i]),
                std::bit_cast<std::uint32_t>(bf16_to_f32(halves[i])));
    }
  }
}

TEST(CpuRows, SwigluIsRightUpToTheEnds) {
  std::vector<float> gate = normals(203, 4);
  for (std::size_t i = 0; i < gate.size(); i += 3) gate[i] *= 20;
  for (const float v : {0.0f, 88.0f, -88.0f, 1000.0f, -1000.0f, 1e30f, -1e30f}) gate.push_back(v);
  const std::vector<float> up = normals(gate.size(), 5);
  for (const Tier tier : tiers_here()) {
    std::vector<float> out(gate.size());
    row_kernels(tier).swiglu(gate.data(), up.data(), static_cast<std::int64_t>(gate.size()),
                             out.data());
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double wanted = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
      ASSERT_NEAR(out[i], wanted, 4e-7 * std::fabs(wanted) + 1e-6 * std::fabs(up[i]))
          << tier_name(tier) << " " << gate[i];
    }
  }
}

TEST(CpuRows, NanIsKept) {
  const std::vector<float> x(16, std::nanf(""));
  const std::vector<float> one(16, 1.0f);
  for (const Tier tier : tiers_here()) {
    const RowKernels& rows = row_kernels(tier);
    std::vector<float> out(16);
    rows.swiglu(x.data(), one.data(), 16, out.data());
    EXPECT_TRUE(std::isnan(out[3])) << tier_name(tier);
    rows.rms_norm(x.data(), one.data(), 1e-5f, 16, out.data());
    EXPECT_TRUE(std::isnan(out[3])) << tier_name(tier);
  }
}

}  // namespace
}  // namespace ingot::cpu
