#include <gtest/gtest.h>

#include "tests/cpu/attention_case.h"

namespace ingot::cpu {
namespace {

// In every store where it says bf16; those in 8 bit in f32 throughout, too.
std::vector<AttentionConfig> in_every_store(const std::vector<AttentionConfig>& some) {
  std::vector<AttentionConfig> all;
  for (AttentionConfig c : some) {
    all.push_back(c);
    if (c.store != KvStore::kBf16) continue;
    for (const KvStore store : {KvStore::kInt8, KvStore::kE4m3}) {
      c.store = store;
      c.exact = false;
      all.push_back(c);
      c.exact = true;
      if (c.sharpness > 2 || c.dim == 64) all.push_back(c);
    }
  }
  return all;
}

const std::vector<AttentionConfig>& configs() {
  static const std::vector<AttentionConfig> all = in_every_store({
      {},
      {.heads = 4, .kv_heads = 4, .dim = 128},
      {.heads = 2, .kv_heads = 1, .dim = 80, .window = 100},
      {.heads = 8, .kv_heads = 2, .dim = 32, .window = 7, .softcap = 2},
      {.heads = 7, .kv_heads = 1, .dim = 64, .softcap = 1},
      {.heads = 10, .kv_heads = 2, .dim = 16, .store = KvStore::kF32},
      {.heads = 12, .kv_heads = 2, .dim = 96, .window = 300, .store = KvStore::kF32},
      {.heads = 8, .kv_heads = 1, .dim = 48, .page_tokens = 128},
      {.heads = 11, .kv_heads = 1, .dim = 24},  // more than a direct item has
      {.heads = 6, .kv_heads = 2, .dim = 33},
      {.heads = 4, .kv_heads = 2, .dim = 20, .page_tokens = 16},
      {.heads = 2, .kv_heads = 1, .dim = 256},
      // Logits whose maximum grows by much from block to block.
      {.heads = 6, .kv_heads = 2, .dim = 64, .sharpness = 30},
      {.heads = 5, .kv_heads = 1, .dim = 40, .window = 70, .sharpness = 60},
      {.heads = 6, .kv_heads = 2, .dim = 64, .window = 50, .sinks = 4},
      {.heads = 4, .kv_heads = 1, .dim = 40, .window = 70, .sinks = 90, .softcap = 2},
  });
  return all;
}

// Equal as bits: NaN would not compare.
::testing::AssertionResult same_bits(const float* got, const float* wanted, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    if (std::memcmp(got + i, wanted + i, sizeof(float)) != 0)
      return ::testing::AssertionFailure()
             << "value " << i << " is " << got[i] << ", wanted " << wanted[i];
  return ::testing::AssertionSuccess();
}

class AttentionTest : public ::testing::TestWithParam<Tier> {
 protected:
  StepOptions options(int threads = 1) const { return {.threads = threads, .tier = GetParam()}; }
  // Of a row's norm. Logits are good to some 1e-7 of their size. Probabilities that are rounded to
  // bf16 are off by 2^-9 at most and average out over keys.
  double tolerance(const AttentionConfig& c) const {
    if (rounds_to_bf16(c, GetParam())) return 5e-3;
    // Probabilities in steps of a 32767th of a block's largest.
    return (rounds_to_int16(c) ? 1e-4 : 2e-6) * std::max(1.0, c.sharpness / 4);
  }
};

TEST_P(AttentionTest, AgreesWithDoublePrecision) {
  for (const AttentionConfig& c : configs()) {
    const std::vector<float> out =
        run_step(c, {{.id = 3, .context = 345, .queries = 345}}, options());
    for (const std::int64_t position : {0, 1, 15, 16, 63, 64, 99, 100, 255, 256, 300, 344}) {
      const std::vector<double> wanted = exact_row(c, 3, position, GetParam());
      const float* got = out.data() + position * c.heads * c.dim;
      double error = 0;
      double norm = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
      }
      EXPECT_LT(std::sqrt(error / norm), tolerance(c)) << describe(c) << " position " << position;
    }
  }
}

// Alone, all but one, all, and more than there are; whole, in chunks and one by one.
TEST_P(AttentionTest, WindowsAtTheirEdges) {
  constexpr std::int64_t n = 131;
  const std::pair<std::int64_t, std::int64_t> windows[] = {
      {1, 0}, {2, 0}, {n - 1, 0}, {n, 0}, {n + 1, 0}, {1, 3}, {66, 65}, {n - 1, 1}, {20, n}};
  for (const auto& [window, sinks] : windows) {
    for (const KvStore store : {KvStore::kBf16, KvStore::kInt8, KvStore::kE4m3}) {
      const AttentionConfig c{
          .heads = 6, .kv_heads = 2, .window = window, .sinks = sinks, .store = store};
      const std::int64_t width = c.heads * c.dim;
      const std::vector<float> whole = run_step(c, {{4, n, n}}, options());
      for (std::int64_t position = 0; position < n; position += 10) {
        const std::vector<double> wanted = exact_row(c, 4, position, GetParam());
        for (std::size_t i = 0; i < wanted.size(); ++i)
          ASSERT_NEAR(whole[static_cast<std::size_t>(position * width) + i], wanted[i],
                      5 * tolerance(c))
              << describe(c) << " position " << position;
      }
      for (const std::int64_t chunk : {1, 5})
        for (std::int64_t begin = 0; begin < n; begin += chunk) {
          const std::int64_t end = std::min(n, begin + chunk);
          const std::vector<float> part = run_step(c, {{4, end, end - begin}}, options());
          ASSERT_TRUE(same_bits(part.data(), whole.data() + begin * width, (end - begin) * width))
              << describe(c) << " chunk " << chunk << " at " << begin;
        }
    }
  }
}

// Scores beyond 65504, where half precision ends; with a soft cap they come back to the cap.
TEST_P(AttentionTest, ScoresBeyondHalfPrecision) {
  for (const double softcap : {0.0, 50.0})
    for (const KvStore store : {KvStore::kBf16, KvStore::kInt8, KvStore::kE4m3}) {
      const AttentionConfig c{
          .heads = 4, .kv_heads = 2, .softcap = softcap, .store = store, .sharpness = 1e5};
      const std::vector<float> out = run_step(c, {{5, 200, 200}}, options());
      for (const std::int64_t position : {0, 1, 70, 199}) {
        const std::vector<double> wanted = exact_row(c, 5, position, GetParam());
        for (std::size_t i = 0; i < wanted.size(); ++i)
          ASSERT_NEAR(out[static_cast<std::size_t>(position * c.heads * c.dim) + i], wanted[i],
                      0.02)
              << describe(c) << " position " << position;
      }
    }
}

TEST_P(AttentionTest, ChunksOfAnySizeGiveTheSameBits) {
  for (const AttentionConfig& c : configs()) {
    const std::int64_t n = 331;
    const std::int64_t width = c.heads * c.dim;
    const std::vector<float> whole = run_step(c, {{1, n, n}}, options());
    for (const std::int64_t chunk : {1, 5, 64, 100}) {
      for (std::int64_t begin = 0; begin < n; begin += chunk) {
        if (chunk == 1 && begin % 37 > 1 && begin % 64 > 1) continue;
        const std::int64_t end = std::min(n, begin + chunk);
        const std::vector<float> part = run_step(c, {{1, end, end - begin}}, options());
        ASSERT_TRUE(same_bits(part.data(), whole.data() + begin * width, (end - begin) * width))
            << describe(c) << " chunk " << chunk << " at " << begin;
      }
    }
  }
}

TEST_P(AttentionTest, NeighboursThreadsAndPageOrderChangeNoBit) {
  const std::vector<StepSequence> step = {{1, 300, 1}, {2, 70, 70}, {3, 640, 1},
                                          {4, 1, 1},   {5, 500, 3}, {6, 200, 130}};
  for (const AttentionConfig& c : configs()) {
    const std::int64_t width = c.heads * c.dim;
    for (const int threads : {1, 2, 3}) {
      StepOptions o = options(threads);
      o.page_seed = static_cast<unsigned>(threads);
      const std::vector<float> together = run_step(c, step, o);
      const float* row = together.data();
      for (const StepSequence& sequence : step) {
        const std::vector<float> alone = run_step(c, {sequence}, options());
        ASSERT_TRUE(same_bits(row, alone.data(), sequence.queries * width))
            << describe(c) << " sequence " << sequence.id << " on " << threads << " threads";
        row += sequence.queries * width;
      }
    }
  }
}

// Few items on several threads: contexts are cut by ranges of keys.
TEST_P(AttentionTest, LongContextsCutByRangesGiveTheSameBits) {
  for (const AttentionConfig& c : configs()) {
    for (const std::int64_t queries : {1, 4}) {
      const StepSequence sequence{9, 1000, queries};
      const std::vector<float> one = run_step(c, {sequence}, options());
      for (const int threads : {2, 3, 5}) {
        const std::vector<float> many = run_step(c, {sequence}, options(threads));
        ASSERT_TRUE(same_bits(many.data(), one.data(), queries * c.heads * c.dim))
            << describe(c) << " on " << threads << " threads";
      }
    }
  }
}

// A page comes back from another request that may have left NaN in it.
TEST_P(AttentionTest, WhatAPageHeldBeforeDoesNotMatter) {
  for (const AttentionConfig& c : configs()) {
    const std::vector<StepSequence> step = {{1, 300, 1}, {2, 75, 75}, {3, 401, 5}};
    StepOptions stale = options(2);
    stale.stale = 0xff;  // NaN in bf16, f32, e4m3 and as a scale
    const std::vector<float> got = run_step(c, step, stale);
    const std::vector<float> wanted = run_step(c, step, options());
    ASSERT_TRUE(same_bits(got.data(), wanted.data(), static_cast<std::int64_t>(got.size())))
        << describe(c);
  }
}

TEST_P(AttentionTest, WhatLiesBeforeTheWindowDoesNotMatter) {
  for (const AttentionConfig& c : configs()) {
    if (c.window == 0) continue;
    for (const std::int64_t context : {400, 401}) {
      StepOptions stale = options();
      stale.stale = 0xff;
      stale.kept = c.sinks;
      stale.lost = context - c.window;
      const std::vector<float> got = run_step(c, {{1, context, 1}}, stale);
      const std::vector<float> wanted = run_step(c, {{1, context, 1}}, options());
      ASSERT_TRUE(same_bits(got.data(), wanted.data(), static_cast<std::int64_t>(got.size())))
          << describe(c);
    }
  }
}

// What is no number is never hidden by fixed point or by a scale: a query, a K or a V of the first
// head that holds one makes all NaN that meets it, and nothing else.
TEST_P(AttentionTest, WhatIsNoNumberStaysNone) {
  constexpr std::int64_t n = 150, bad = 70;
  for (const AttentionConfig& c : configs()) {
    // A sharp softmax leaves some V out altogether.
    if (!has_scales(c.store) || c.sharpness > 2) continue;
    const std::int64_t dim = c.dim, group = c.heads / c.kv_heads, width = c.heads * dim;
    const std::vector<float> clean = run_step(c, {{1, n, n}}, options());
    for (const int what : {0, 1, 2})
      for (const std::int64_t chunk : {n, std::int64_t{1}}) {
        StepOptions o = options();
        o.bad_position = bad;
        o.bad_what = what;
        const std::int64_t first = chunk == n ? 0 : bad;  // one by one from there on
        for (std::int64_t begin = first; begin < n; begin += chunk) {
          const std::vector<float> got = run_step(c, {{1, begin + chunk, chunk}}, o);
          for (std::int64_t i = 0; i < chunk * width; ++i) {
            const std::int64_t t = begin + i / width, head = i % width / dim;
            const bool sees = c.sees(t, bad);
            const bool meets = what == 0 ? t == bad && head == 0 : sees && head < group;
            if (meets) {
              ASSERT_TRUE(std::isnan(got[static_cast<std::size_t>(i)])) << describe(c) << " " << t;
            } else {
              ASSERT_EQ(got[static_cast<std::size_t>(i)],
                        clean[static_cast<std::size_t>(begin * width + i)])
                  << describe(c) << " " << t << " what " << what;
            }
          }
        }
      }
  }
}

TEST_P(AttentionTest, SequencesWithNothingToDoAreSkipped) {
  const AttentionConfig c;
  const std::vector<float> alone = run_step(c, {{2, 40, 40}}, options());
  const std::vector<float> got = run_step(c, {{1, 0, 0}, {2, 40, 40}, {3, 9, 0}}, options(2));
  ASSERT_EQ(got.size(), alone.size());
  EXPECT_TRUE(same_bits(got.data(), alone.data(), static_cast<std::int64_t>(alone.size())));
}

std::string tier_of(const ::testing::TestParamInfo<Tier>& info) {
  return std::string(tier_name(info.param));
}
INSTANTIATE_TEST_SUITE_P(Tiers, AttentionTest, ::testing::ValuesIn(tiers_here()), tier_of);

// Tiers with fused multiply-add do the same operations in the same order, unless they round.
TEST(AttentionTiers, AgreeClosely) {
  for (const AttentionConfig& c : configs()) {
    const std::vector<StepSequence> step = {{1, 300, 40}, {2, 77, 1}};
    const std::vector<float> generic = run_step(c, step, {.tier = Tier::kGeneric});
    std::vector<float> fused;
    for (const Tier tier : tiers_here()) {
      if (tier == Tier::kGeneric || rounds_to_bf16(c, tier)) continue;
      const std::vector<float> got = run_step(c, step, {.tier = tier});
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], generic[i],
                    (rounds_to_int16(c) ? 2e-4 : 4e-6) * std::max(1.0, c.sharpness / 4))
            << describe(c) << " " << tier_name(tier);
      if (fused.empty()) fused = got;
      EXPECT_TRUE(same_bits(got.data(), fused.data(), static_cast<std::int64_t>(got.size())))
          << describe(c) << " " << tier_name(tier);
    }
  }
}

}  // namespace
}  // namespace ingot::cpu
