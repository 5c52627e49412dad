#include "quant/weight_format.h"

#include "base/error.h"
#include "base/file.h"
#include "base/half.h"
#include "formats/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace ingot {
namespace {

std::vector<float> dequantized(const WeightFormat& format, std::span<const std::byte> row,
                               std::int64_t k) {
  std::vector<float> out(static_cast<std::size_t>(k));
  format.dequantize_row(row.data(), k, out.data());
  return out;
}

std::vector<std::byte> quantized(const WeightFormat& format, const std::vector<float>& in) {
  const auto k = static_cast<std::int64_t>(in.size());
  std::vector<std::byte> row(format.row_bytes(k));
  format.quantize_row(in.data(), k, row.data());
  return row;
}

std::vector<float> round_trip(const WeightFormat& format, const std::vector<float>& in) {
  return dequantized(format, quantized(format, in), static_cast<std::int64_t>(in.size()));
}

std::vector<float> normal(std::size_t n, unsigned seed, float deviation = 0.05f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<float> values(n);
  for (float& v : values) v = distribution(rng);
  return values;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& wanted) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(double{got[i]} - wanted[i], 2);
    norm += std::pow(double{wanted[i]}, 2);
  }
  return std::sqrt(error / norm);
}

// Oracle: the gguf Python package's dequantisation of random blocks with odd scales.
class GgufBlocks : public testing::TestWithParam<const char*> {};

TEST_P(GgufBlocks, DequantizeExactly) {
  const std::string base = std::string(INGOT_FIXTURES) + "/gguf_blocks/" + GetParam();
  std::string stem = GetParam();
  for (char& c : stem) c = static_cast<char>(std::tolower(c));
  const WeightFormat& format = weight_format(stem);
  const MappedFile blocks(base + ".bin");
  const NpyArray wanted = read_npy(base + ".npy");
  const std::int64_t rows = wanted.shape[0];
  const std::int64_t k = wanted.shape[1];
  ASSERT_EQ(blocks.size(), weight_bytes(format, rows, k));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::size_t size = format.row_bytes(k);
    const auto got =
        dequantized(format, blocks.bytes().subspan(static_cast<std::size_t>(r) * size, size), k);
    for (std::int64_t i = 0; i < k; ++i)
      ASSERT_EQ(got[static_cast<std::size_t>(i)],
                wanted.as<float>()[static_cast<std::size_t>(r * k + i)])
          << "row " << r << " value " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufBlocks,
                         testing::Values("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
                                         "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS",
                                         "MXFP4", "NVFP4"),
                         [](const auto& info) { return std::string(info.param); });

TEST(WeightFormat, FolderIsTheListSortedByName) {
  std::vector<std::string_view> names;
  for (const WeightFormat* format : weight_formats()) {
    names.push_back(format->name);
    EXPECT_EQ(find_weight_format(format->name), format);
    EXPECT_EQ(format->row_bytes(0) <= 4, true) << format->name;
  }
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"bf16", "f16", "f32", "fp8", "int4", "int8", "q4_k", "q6_k"})
    EXPECT_NE(find_weight_format(name), nullptr) << name;
  EXPECT_EQ(find_weight_format("q3_k_m"), nullptr);
  try {
    weight_format("nope");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
    EXPECT_THAT(e.message(), testing::HasSubstr("q4_0"));
  }
}

TEST(WeightFormat, BytesRefuseWhatDoesNotFit) {
  const WeightFormat& q4 = weight_format("q4_0");
  EXPECT_EQ(weight_bytes(q4, 3, 64), 3u * 36);
  EXPECT_THROW(weight_bytes(q4, 3, 63), Error);
  EXPECT_THROW(weight_bytes(q4, -1, 64), Error);
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const WeightFormat* format : weight_formats()) {
    EXPECT_THROW(weight_bytes(*format, 4, huge), Error) << format->name;
    EXPECT_THROW(weight_bytes(*format, huge, 1024), Error) << format->name;
  }
}

struct Bound {
  const char* name;
  double relative;  // of the norm of normally distributed weights
};

class RoundTrip : public testing::TestWithParam<Bound> {};

TEST_P(RoundTrip, ErrorIsWithinItsBound) {
  const WeightFormat& format = weight_format(GetParam().name);
  const auto in = normal(4096, 7);
  const double error = relative_error(round_trip(format, in), in);
  EXPECT_LT(error, GetParam().relative);
  EXPECT_GT(error, GetParam().relative / 4) << "the bound says nothing";
}

TEST_P(RoundTrip, StoredValuesStayPut) {
  // What a format can hold comes back the same: quantising twice changes nothing but the last bit
  // of a scale that is derived again.
  const WeightFormat& format = weight_format(GetParam().name);
  const auto once = round_trip(format, normal(1024, 8));
  EXPECT_LT(relative_error(round_trip(format, once), once), GetParam().relative / 4);
}

TEST_P(RoundTrip, ZerosAndTinyValuesStayFinite) {
  const WeightFormat& format = weight_format(GetParam().name);
  for (const float size :
       {0.0f, std::numeric_limits<float>::denorm_min(), 1e-41f, 1e-38f, 1e-30f, 6e-8f, 1e-6f}) {
    auto in = normal(256, 9, 1);
    for (float& v : in) v *= size;
    for (const float v : round_trip(format, in)) {
      ASSERT_TRUE(std::isfinite(v)) << size;
      ASSERT_LE(std::fabs(v), 8 * size + 1e-7f);
    }
  }
}

TEST_P(RoundTrip, ZerosAmongOthersStayZero) {
  const WeightFormat& format = weight_format(GetParam().name);
  auto in = normal(256, 13);
  for (std::size_t i = 0; i < in.size(); i += 3) in[i] = 0;
  const auto got = round_trip(format, in);
  // Formats with a minimum have zero only to half a step.
  const bool exact = format.name.find("_1") == std::string_view::npos;
  for (std::size_t i = 0; i < in.size(); i += 3) ASSERT_NEAR(got[i], 0, exact ? 0 : 0.02) << i;
}

TEST_P(RoundTrip, ConstantRowsAndOutliers) {
  const WeightFormat& format = weight_format(GetParam().name);
  for (const float v : {1.0f, -1.0f, 0.375f})
    for (const float got : round_trip(format, std::vector<float>(256, v)))
      ASSERT_NEAR(got, v, 0.005 * std::fabs(v));
  auto in = normal(256, 10);
  in[100] = 50;
  in[200] = -50;
  const auto got = round_trip(format, in);
  EXPECT_NEAR(got[100], 50, 50 * 0.13);  // one side of a signed range is one step short
  EXPECT_NEAR(got[200], -50, 50 * 0.13);
}

INSTANTIATE_TEST_SUITE_P(All, RoundTrip,
                         testing::Values(Bound{"f16", 4e-4}, Bound{"bf16", 3e-3},
                                         Bound{"q8_0", 8e-3}, Bound{"q5_1", 5e-2},
                                         Bound{"q5_0", 6e-2}, Bound{"q4_1", 9e-2},
                                         Bound{"q4_0", 1.1e-1}, Bound{"int8", 1.5e-2},
                                         Bound{"int4", 1.3e-1}, Bound{"fp8", 4e-2}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(WeightFormat, BlockFormatsRefuseWhatTheyCannotHold) {
  for (const WeightFormat* format : weight_formats()) {
    if (!format->quantize_row || format->exact_dtype) continue;
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      auto in = normal(256, 11);
      in[77] = bad;
      EXPECT_THROW(quantized(*format, in), Error) << format->name;
    }
  }
  // A block scale is an f16.
  for (const char* name : {"q4_0", "q8_0", "q5_1", "int4"})
    EXPECT_THROW(quantized(weight_format(name), std::vector<float>{normal(256, 12, 1e20f)}), Error);
  for (const char* name : {"int8", "fp8"})
    EXPECT_LT(relative_error(round_trip(weight_format(name), normal(256, 12, 1e20f)),
                             normal(256, 12, 1e20f)),
              0.05);
}

TEST(WeightFormat, PerRowScaleIsThatOfTheLargestValue) {
  std::vector<float> in(100, 0.5f);
  in[3] = -127;
  const auto row = quantized(weight_format("int8"), in);
  ASSERT_EQ(row.size(), 104u);
  float scale;
  std::memcpy(&scale, row.data(), sizeof scale);
  EXPECT_EQ(scale, 1);
  EXPECT_EQ(static_cast<std::int8_t>(row[4 + 3]), -127);
  EXPECT_EQ(static_cast<std::int8_t>(row[4]), 0) << "0.5 goes to even";
  in[3] = 448;
  EXPECT_EQ(round_trip(weight_format("fp8"), in)[3], 448);
}

TEST(WeightFormat, Int4KeepsTheLayoutItDocuments) {
  std::vector<float> in(128, 0);
  in[0] = -8;
  in[33] = 3;
  in[64] = 4;  // the second group: its own scale, -0.5
  const auto row = quantized(weight_format("int4"), in);
  ASSERT_EQ(row.size(), 68u);
  EXPECT_EQ(std::to_integer<int>(row[0]) | std::to_integer<int>(row[1]) << 8, f32_to_f16(1));
  EXPECT_EQ(std::to_integer<int>(row[2]), 0x80);       // value 0: -8 + 8; value 32: 0 + 8
  EXPECT_EQ(std::to_integer<int>(row[3]), 0xb8);       // value 1: 8; value 33: 3 + 8
  EXPECT_EQ(std::to_integer<int>(row[34 + 2]), 0x80);  // value 64: 4 / -0.5 + 8
  EXPECT_EQ(round_trip(weight_format("int4"), in), in);
}

}  // namespace
}  // namespace ingot
