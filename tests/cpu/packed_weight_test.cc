#include "cpu/packed_weight.h"

#include "base/error.h"
#include "cpu/simd/tier.h"

#include <gtest/gtest.h>

#include "tests/cpu/random_weight.h"
#include <algorithm>
#include <string>

namespace ingot::cpu {
namespace {

class PackedWeightTest : public testing::TestWithParam<int> {
 protected:
  const PackedFormat& format() const { return kPackedFormats[GetParam()]; }
};

TEST_P(PackedWeightTest, NameKindAndSizesAgreeWithTheWeightFormat) {
  const PackedFormat& f = format();
  EXPECT_EQ(static_cast<int>(f.kind), GetParam());
  EXPECT_EQ(find_packed_format(f.name), &f);
  const WeightFormat& w = weight_format(f.name);
  for (int blocks : {1, 2, 5}) {
    const std::int64_t k = blocks * f.block_k;
    EXPECT_EQ(w.row_bytes(k),
              static_cast<std::size_t>(f.row_header_bytes + blocks * f.source_bytes));
    // No bit more in memory than in the file.
    EXPECT_EQ(packed_bytes(f, 32, k), 32 * w.row_bytes(k));
    EXPECT_EQ(packed_panel_bytes(f, k) % 64, 0u);
  }
}

TEST_P(PackedWeightTest, UnpackInvertsPackByteForByte) {
  const PackedFormat& f = format();
  for (const auto& [n, blocks, threads] :
       {std::tuple{32, 1, 1}, {1, 2, 1}, {33, 3, 2}, {100, 2, 3}, {64, 5, 2}}) {
    const std::int64_t k = odd_k(f, blocks);
    std::vector<std::byte> rows(static_cast<std::size_t>(n) * weight_format(f.name).row_bytes(k));
    std::mt19937 random(static_cast<std::uint32_t>(n));
    for (std::byte& b : rows) b = static_cast<std::byte>(random());
    const Aligned packed(packed_bytes(f, n, k));
    ThreadPool pool(threads);
    pack_rows(pool, f, n, k, rows.data(), packed.data());
    std::vector<std::byte> back(rows.size(), std::byte{0x5a});
    unpack_rows(pool, {.format = &f, .n = n, .k = k, .data = packed.data()}, back.data());
    EXPECT_TRUE(rows == back) << f.name << " [" << n << ", " << k << "]";
    EXPECT_TRUE(std::all_of(packed.data() + packed.size(), packed.data() + packed.size() + 64,
                            [](std::byte b) { return b == std::byte{0xa5}; }));
  }
}

TEST_P(PackedWeightTest, PanelsPackAndUnpackAlone) {
  const PackedFormat& f = format();
  const std::int64_t n = 100;
  const std::int64_t k = odd_k(f, 2);
  const TestWeight w(f, n, k, 3);
  const std::size_t panel = packed_panel_bytes(f, k);
  const std::size_t step = 32 * weight_format(f.name).row_bytes(k);
  const Aligned alone(2 * panel);
  pack_panels(f, n, k, {2, 4}, w.rows.data() + 2 * step, alone.data());
  EXPECT_TRUE(std::equal(alone.data(), alone.data() + 2 * panel, w.data.data() + 2 * panel));
  std::vector<std::byte> back(w.rows.size() - 2 * step);
  unpack_panels(f, n, k, {2, 4}, w.data.data() + 2 * panel, back.data());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), w.rows.begin() + static_cast<long>(2 * step)));
}

// What the kernels of each tier make of the packed bytes is what the weight format says they mean.
TEST_P(PackedWeightTest, ExpandsToTheNumbersOfTheWeightFormat) {
  const PackedFormat& f = format();
  for (const Tier tier :
       {Tier::kGeneric, Tier::kAvx2, Tier::kAvx512, Tier::kAvx512Vnni, Tier::kAvx512Bf16}) {
    if (tier > detected_tier()) break;
    const MatmulKernels& kernels = matmul_kernels(tier);
    const std::int64_t k = odd_k(f, f.block_k == 256 ? 3 : 9);
    const std::int64_t padded = padded_k(f, k);
    const TestWeight w(f, 30, k, 5);
    const std::vector<float> want = w.dequantised();
    const MatmulPlan plan = kernels.plan(f, Compute::kF32, 1);
    if (plan.in_place) continue;  // nothing is expanded
    const Aligned slice(static_cast<std::size_t>(plan.slice_bytes));
    const Aligned scales(static_cast<std::size_t>(plan.slice_floats) * 4);
    const auto* panel = reinterpret_cast<const std::uint8_t*>(w.data.data());
    int wrong = 0;
    for (std::int64_t at = 0; at < padded; at += plan.slice_k) {
      const std::int64_t count = std::min<std::int64_t>(plan.slice_k, padded - at);
      kernels.expand(
          {.format = &f,
           .compute = Compute::kF32,
           .blocks = panel + f.row_header_bytes * 32 + at / f.block_k * packed_block_bytes(f),
           .k = count,
           .row_scale = f.row_header_bytes != 0 ? reinterpret_cast<const float*>(panel) : nullptr,
           .q = reinterpret_cast<std::uint8_t*>(slice.data()),
           .scale = reinterpret_cast<float*>(scales.data())});
      const auto* got = reinterpret_cast<const float*>(slice.data());
      for (std::int64_t i = 0; i < count; ++i)
        for (std::int64_t r = 0; r < 30; ++r)
          wrong +=
              got[i * 32 + r] != (at + i < k ? want[static_cast<std::size_t>(r * k + at + i)] : 0);
    }
    EXPECT_EQ(wrong, 0) << f.name << " " << tier_name(tier);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedWeightTest,
                         testing::Range(0, static_cast<int>(PackedKind::kCount)),
                         [](const auto& info) {
                           return std::string(kPackedFormats[info.param].name);
                         });

TEST(PackedWeight, RefusesBrokenRowsAndSizesBeyondMemory) {
  const PackedFormat& q4 = *find_packed_format("q4_0");
  EXPECT_THROW(packed_bytes(q4, 32, 33), Error);
  EXPECT_THROW(packed_bytes(q4, std::int64_t{1} << 39, std::int64_t{1} << 39), Error);
  EXPECT_THROW(packed_bytes(q4, -1, 32), Error);
  EXPECT_EQ(find_packed_format("q4_7"), nullptr);
}

TEST(Tier, DetectionIsOrderedAndNamed) {
  EXPECT_LE(best_tier(), detected_tier());
  EXPECT_EQ(tier_name(Tier::kAvx512Vnni), "avx512_vnni");
}

}  // namespace
}  // namespace ingot::cpu
