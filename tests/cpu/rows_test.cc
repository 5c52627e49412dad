#include "cpu/simd/rows.h"

#include "base/half.h"
#include "cpu/kernel_maker.h"
#include "cpu/kv_writer.h"
#include "ops/reference/kv_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
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

// Rows of every size of numbers; the last ones have no range of their own.
std::vector<std::vector<float>> rows_to_keep(std::size_t dim) {
  std::vector<std::vector<float>> rows;
  for (const float size : {1.0f, 1e-20f, 3e30f, 448.0f, 127.0f}) {
    rows.push_back(normals(dim, 40 + static_cast<unsigned>(dim)));
    for (float& x : rows.back()) x *= size;
  }
  // Far apart, to meet e4m3's every exponent, and its ties beside a largest of 448.
  rows.push_back(normals(dim, 50));
  for (std::size_t i = 0; i < dim; ++i) rows.back()[i] *= std::exp2(-static_cast<float>(i % 20));
  rows.emplace_back(dim);
  for (std::size_t i = 0; i < dim; ++i)
    rows.back()[i] =
        std::ldexp(16.0f + static_cast<float>(i % 32) / 2, static_cast<int>(i % 11) - 8);
  rows.back()[dim / 2] = 448;
  for (const float odd :
       {0.0f, 1e-31f, 1e-42f, INFINITY, -INFINITY, std::nanf(""), -std::nanf("")}) {
    rows.emplace_back(dim, odd == 0 || std::fabs(odd) < 1 ? odd : 1.0f);
    rows.back()[dim - 1] = odd;
  }
  return rows;
}

// Bytes of a page, read back through the layout: the reference's codes and scales on every tier,
// and nothing written beside them.
TEST(CpuRows, EightBitRowsAreTheReferencesOnEveryTier) {
  for (const KvStore store : {KvStore::kInt8, KvStore::kE4m3})
    for (const std::int64_t dim : {1, 16, 33, 64, 80, 256, 512}) {
      const DType dtype = store == KvStore::kInt8 ? DType::kI8 : DType::kE4M3;
      const KvLayout layout{.kv_heads = 2, .dim = dim, .page_tokens = 32, .store = store};
      const auto n = static_cast<std::size_t>(dim);
      for (const std::vector<float>& row : rows_to_keep(n)) {
        std::vector<float> k(2 * n), v(2 * n);
        for (std::size_t i = 0; i < n; ++i) k[i] = v[n + i] = row[i], k[n + i] = v[i] = 2.0f;
        std::vector<std::uint8_t> codes(n);
        const float scale = encode_kv_row(dtype, row, codes);
        for (const Tier tier : tiers_here()) {
          constexpr std::byte kBefore{0x5b};
          std::vector<std::byte> page(static_cast<std::size_t>(layout.page_bytes()), kBefore);
          KvWriter(layout).append(row_kernels(tier), page.data(), 17, k.data(), v.data());
          const auto code = [&](std::int64_t at) {
            return static_cast<std::uint8_t>(
                std::exchange(page[static_cast<std::size_t>(at)], kBefore));
          };
          for (std::int64_t d = 0; d < dim; ++d) {
            ASSERT_EQ(code(layout.k_at(0, 17, d)), codes[static_cast<std::size_t>(d)])
                << tier_name(tier) << " " << row[static_cast<std::size_t>(d)];
            ASSERT_EQ(code(layout.v_at(1, 17, d)), codes[static_cast<std::size_t>(d)]);
            code(layout.k_at(1, 17, d)), code(layout.v_at(0, 17, d));
          }
          const auto scale_at = [&](std::int64_t at) {
            float x;
            std::memcpy(&x, page.data() + at, sizeof x);
            std::fill_n(page.begin() + at, sizeof x, kBefore);
            return x;
          };
          for (const float x :
               {scale_at(layout.k_scale_at(0, 17)), scale_at(layout.v_scale_at(1, 17))})
            ASSERT_TRUE(x == scale || (std::isnan(x) && std::isnan(scale))) << x << " " << scale;
          scale_at(layout.k_scale_at(1, 17)), scale_at(layout.v_scale_at(0, 17));
          for (std::int64_t d = dim; d % 2 == 1; ++d)  // a pair's second
            for (const std::int64_t head : {0, 1}) ASSERT_EQ(code(layout.k_at(head, 17, d)), 0);
          ASSERT_TRUE(
              std::all_of(page.begin(), page.end(), [](std::byte b) { return b == kBefore; }));
        }
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
