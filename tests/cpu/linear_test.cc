#include "cpu/linear.h"

#include <gtest/gtest.h>

#include "tests/cpu/random_weight.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace ingot::cpu {
namespace {

constexpr int kTokens = 200;
constexpr int kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 29, 64, 127, 200};

std::vector<Tier> tiers() {
  std::vector<Tier> all;
  for (const Tier t :
       {Tier::kGeneric, Tier::kAvx2, Tier::kAvx512, Tier::kAvx512Vnni, Tier::kAvx512Bf16})
    if (t <= detected_tier()) all.push_back(t);
  return all;
}

// Runs `call` in a workspace of exactly the promised size.
void run(int threads, const LinearCall& call, Tier tier) {
  std::vector<const PackedFormat*> formats;
  for (const PackedWeight& w : call.weights)
    if (std::find(formats.begin(), formats.end(), w.format) == formats.end())
      formats.push_back(w.format);
  const Aligned memory(
      linear_workspace_bytes(formats, call.compute, call.m, call.weights[0].k, threads, tier));
  ThreadPool pool(threads);
  linear(pool, {memory.data(), memory.size()}, call, tier);
}

// Normal numbers with outlier channels, and one token of zeros.
std::vector<float> activations(std::int64_t k) {
  auto x = random_floats(static_cast<std::size_t>(kTokens * k), 7);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i % static_cast<std::size_t>(k) % 97 == 5) x[i] *= 20;
  std::fill_n(x.begin() + 3 * k, k, 0.0f);
  return x;
}

struct Case {
  Tier tier;
  int format;
  Compute compute;
};

// The BF16 instructions multiply bf16 with bf16.
bool rounds_to_bf16(const PackedFormat& f, const Case& at) {
  return f.kind == PackedKind::kBf16 && at.tier == Tier::kAvx512Bf16 &&
         at.compute == Compute::kNative;
}

// What the activations become by the rule in simd/matmul.h.
std::vector<double> seen_by_kernel(const PackedFormat& f, const Case& at, const float* x,
                                   std::int64_t k) {
  std::vector<double> out(x, x + k);
  if (rounds_to_bf16(f, at)) {
    for (double& v : out) v = bf16_to_f32(f32_to_bf16(static_cast<float>(v)));
    return out;
  }
  if (f.is_float || at.compute == Compute::kF32) return out;
  const std::int64_t span = f.group == 0 ? k : 32;
  for (std::int64_t g = 0; g < k; g += span) {
    const std::int64_t end = std::min(g + span, k);
    float top = 0;
    for (std::int64_t i = g; i < end; ++i) top = std::max(top, std::fabs(x[i]));
    for (std::int64_t i = g; i < end; ++i)
      out[static_cast<std::size_t>(i)] =
          top > 0 ? std::nearbyintf(x[i] * (127.0f / top)) * double{top / 127.0f} : 0;
  }
  return out;
}

class LinearTest : public testing::TestWithParam<Case> {
 protected:
  const PackedFormat& format() const { return kPackedFormats[GetParam().format]; }
  std::vector<float> call(const TestWeight& w, const std::vector<float>& x, std::int64_t m,
                          std::int64_t first, int threads) const {
    const std::int64_t stride = w.view.n + 3;
    std::vector<float> y(static_cast<std::size_t>(m * stride), 77.0f);
    run(threads,
        {.weights = {&w.view, 1},
         .m = m,
         .x = x.data() + first * w.view.k,
         .x_stride = w.view.k,
         .y = y.data(),
         .y_stride = stride,
         .compute = GetParam().compute},
        GetParam().tier);
    return y;
  }
};

TEST_P(LinearTest, AgreesWithF64OnTheSameActivations) {
  const PackedFormat& f = format();
  const std::int64_t k = odd_k(f, f.block_k == 256 ? 5 : 1280 / f.block_k);
  const TestWeight w(f, 70, k, 11);
  const auto weights = w.dequantised();
  const auto x = activations(k);
  const auto y = call(w, x, 21, 0, 2);
  double worst = 0;
  for (std::int64_t i = 0; i < 21; ++i) {
    const auto seen = seen_by_kernel(f, GetParam(), x.data() + i * k, k);
    for (std::int64_t r = 0; r < 70; ++r) {
      double sum = 0;
      double magnitude = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const double term = seen[static_cast<std::size_t>(j)] *
                            static_cast<double>(weights[static_cast<std::size_t>(r * k + j)]);
        sum += term;
        magnitude += std::fabs(term);
      }
      const double error = std::fabs(y[static_cast<std::size_t>(i * 73 + r)] - sum);
      worst = std::max(worst, magnitude > 0 ? error / magnitude : error);
    }
    for (std::size_t r = 70; r < 73; ++r) EXPECT_EQ(y[static_cast<std::size_t>(i) * 73 + r], 77.0f);
  }
  EXPECT_LT(worst, 1e-6);
}

TEST_P(LinearTest, ARowHasTheSameBitsWhateverSurroundsIt) {
  const PackedFormat& f = format();
  // Longer than one slice and than one token block would be; generic loops are slow, so fewer rows.
  const std::int64_t k = odd_k(f, f.block_k == 256 ? 3 : 768 / f.block_k);
  const TestWeight w(f, 75, k, 13);
  const auto x = activations(k);
  const std::size_t stride = 78;
  std::vector<float> alone;
  const int tokens = GetParam().tier == Tier::kGeneric ? 16 : kTokens;
  for (int i = 0; i < tokens; ++i) {
    const auto y = call(w, x, 1, i, 1);
    alone.insert(alone.end(), y.begin(), y.end());
  }
  for (const int m : kRowCounts) {
    if (m > tokens) break;
    for (const int first : {0, (tokens - m) / 2, tokens - m}) {
      const int threads = 1 + (m + first) % 3;
      const auto y = call(w, x, m, first, threads);
      const bool same =
          std::equal(y.begin(), y.end(), alone.begin() + static_cast<long>(stride) * first,
                     [](float a, float b) {
                       return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
                     });
      EXPECT_TRUE(same) << m << " tokens from " << first << " on " << threads << " threads";
    }
  }
}

TEST_P(LinearTest, TiersAgreeBitForBit) {
  if (rounds_to_bf16(format(), GetParam())) GTEST_SKIP() << "activations differ";
  const std::int64_t k = odd_k(format(), format().block_k == 256 ? 3 : 640 / format().block_k);
  const TestWeight w(format(), 64, k, 17);
  const auto x = activations(k);
  const auto y = call(w, x, 9, 1, 1);
  std::vector<float> generic(y.size(), 77.0f);
  run(1,
      {.weights = {&w.view, 1},
       .m = 9,
       .x = x.data() + k,
       .x_stride = k,
       .y = generic.data(),
       .y_stride = 67,
       .compute = GetParam().compute},
      Tier::kGeneric);
  EXPECT_TRUE(y == generic);
}

// A NaN or an infinity in the input must not come out as a number.
TEST_P(LinearTest, NonFiniteInputsStayVisible) {
  const std::int64_t k = odd_k(format(), format().block_k == 256 ? 1 : 64 / format().block_k);
  const TestWeight w(format(), 32, k, 19);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto x = activations(k);
    x[static_cast<std::size_t>(k + 9)] = bad;
    const auto y = call(w, x, 3, 0, 1);
    for (std::size_t r = 0; r < 32; ++r) {
      EXPECT_TRUE(std::isfinite(y[r]));
      EXPECT_FALSE(std::isfinite(y[35 + r])) << r;
      EXPECT_TRUE(std::isfinite(y[70 + r]));
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Tier t : tiers())
    for (int f = 0; f < static_cast<int>(PackedKind::kCount); ++f) {
      all.push_back({t, f, Compute::kNative});
      if (!kPackedFormats[f].is_float || kPackedFormats[f].kind == PackedKind::kBf16)
        all.push_back({t, f, Compute::kF32});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, LinearTest, testing::ValuesIn(cases()), [](const auto& info) {
  return std::string(tier_name(info.param.tier)) + "_" + kPackedFormats[info.param.format].name +
         (info.param.compute == Compute::kF32 ? "_by_f32" : "");
});

class LinearTierTest : public testing::TestWithParam<Tier> {};

TEST_P(LinearTierTest, SeveralWeightsOfMixedFormatsEqualSeparateCalls) {
  const std::int64_t k = 512;
  const TestWeight a(*find_packed_format("q4_k"), 96, k, 1);
  const TestWeight b(*find_packed_format("q6_k"), 33, k, 2);
  const TestWeight c(*find_packed_format("q4_k"), 64, k, 3);
  const TestWeight d(*find_packed_format("bf16"), 40, k, 4);
  const PackedWeight views[] = {a.view, b.view, c.view, d.view};
  const auto x = activations(k);
  const std::int64_t n = 96 + 33 + 64 + 40;
  for (const std::int64_t m : {1, 3, 20}) {
    std::vector<float> together(static_cast<std::size_t>(m * n));
    run(3,
        {.weights = views,
         .m = m,
         .x = x.data(),
         .x_stride = k,
         .y = together.data(),
         .y_stride = n},
        GetParam());
    std::vector<float> apart(together.size());
    std::int64_t column = 0;
    for (const PackedWeight& w : views) {
      run(1,
          {.weights = {&w, 1},
           .m = m,
           .x = x.data(),
           .x_stride = k,
           .y = apart.data() + column,
           .y_stride = n},
          GetParam());
      column += w.n;
    }
    EXPECT_TRUE(together == apart) << m;
  }
}

TEST_P(LinearTierTest, BiasAndResidualAreAddedInThatOrder) {
  const std::int64_t k = 64;
  const std::int64_t n = 45;
  const TestWeight w(*find_packed_format("q8_0"), n, k, 1);
  const auto x = activations(k);
  const auto bias = random_floats(static_cast<std::size_t>(n), 2);
  for (const std::int64_t m : {1, 9}) {
    const auto residual = random_floats(static_cast<std::size_t>(m * n), 3);
    LinearCall call{.weights = {&w.view, 1}, .m = m, .x = x.data(), .x_stride = k};
    std::vector<float> plain(residual.size());
    call.y = plain.data();
    call.y_stride = n;
    run(2, call, GetParam());
    std::vector<float> full = residual;  // in place
    call.y = full.data();
    call.bias = bias.data();
    call.residual = full.data();
    call.residual_stride = n;
    run(2, call, GetParam());
    for (std::size_t i = 0; i < full.size(); ++i)
      ASSERT_EQ(full[i], (plain[i] + bias[i % static_cast<std::size_t>(n)]) + residual[i]) << i;
  }
}

TEST_P(LinearTierTest, SwigluTakesGateAndUpFromOnePanel) {
  const std::int64_t k = 96;
  const std::int64_t n = 96;
  const TestWeight w(*find_packed_format("q4_0"), n, k, 1);
  auto x = activations(k);
  for (std::size_t i = 0; i < static_cast<std::size_t>(4 * k); ++i)
    x[i] *= 30;  // saturate silu too
  const auto bias = random_floats(static_cast<std::size_t>(n), 2);
  for (const std::int64_t m : {2, 11}) {
    LinearCall call{
        .weights = {&w.view, 1}, .m = m, .x = x.data(), .x_stride = k, .bias = bias.data()};
    std::vector<float> rows(static_cast<std::size_t>(m * n));
    call.y = rows.data();
    call.y_stride = n;
    run(1, call, GetParam());
    const std::int64_t outputs = n / 2;
    const auto residual = random_floats(static_cast<std::size_t>(m * outputs), 3);
    std::vector<float> y(residual.size());
    call.y = y.data();
    call.y_stride = outputs;
    call.residual = residual.data();
    call.residual_stride = outputs;
    call.epilogue = Epilogue::kSwiglu;
    run(2, call, GetParam());
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < outputs; ++j) {
        const std::int64_t gate_row = j / kGateUpRows * 32 + j % kGateUpRows;
        const double gate = rows[static_cast<std::size_t>(i * n + gate_row)];
        const double up = rows[static_cast<std::size_t>(i * n + gate_row + kGateUpRows)];
        const double silu = gate / (1 + std::exp(-gate));
        const auto at = static_cast<std::size_t>(i * outputs + j);
        ASSERT_NEAR(y[at], silu * up + residual[at],
                    4e-7 * std::fabs(silu * up) + 1e-6 * std::fabs(residual[at]) + 1e-30)
            << gate;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, LinearTierTest, testing::ValuesIn(tiers()),
                         [](const auto& info) { return std::string(tier_name(info.param)); });

// One workspace, sized for the largest call, serves every smaller one.
TEST(LinearWorkspace, ServesEverySmallerCall) {
  const PackedFormat* formats[] = {find_packed_format("q4_0"), find_packed_format("q8_0")};
  for (const Tier tier : tiers()) {
    const Aligned memory(linear_workspace_bytes(formats, Compute::kNative, 600, 2048, 2, tier));
    EXPECT_LE(memory.size(), std::size_t{8} << 20);
    ThreadPool pool(2);
    for (const std::int64_t k : {32, 480, 2048}) {
      const TestWeight a(*formats[0], 32, k, 1);
      const TestWeight b(*formats[1], 32, k, 1);
      const PackedWeight views[] = {a.view, b.view};
      const auto x = random_floats(static_cast<std::size_t>(600 * k), 1);
      for (const std::int64_t m : {1, 4, 5, 600}) {
        if (tier == Tier::kGeneric && m * k > 300000) continue;
        std::vector<float> y(static_cast<std::size_t>(m * 64));
        linear(
            pool, {memory.data(), memory.size()},
            {.weights = views, .m = m, .x = x.data(), .x_stride = k, .y = y.data(), .y_stride = 64},
            tier);
      }
    }
  }
}

}  // namespace
}  // namespace ingot::cpu
