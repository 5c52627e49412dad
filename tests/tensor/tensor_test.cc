#include "tensor/tensor.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace ingot {
namespace {

TEST(Shape, HoldsUpToFourSizes) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().elements(), 1);
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[1], 3);
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(to_string(shape), "[2,3,4]");
  EXPECT_EQ(to_string(Shape()), "[]");
  EXPECT_EQ(shape, Shape({2, 3, 4}));
  EXPECT_NE(shape, Shape({2, 3, 4, 1}));
  EXPECT_EQ(Shape({0, 5}).elements(), 0);
  EXPECT_THROW(Shape({1, 2, 3, 4, 5}), Error);
}

TEST(Shape, CheckedProductRefusesOverflowAndNegatives) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const auto product = [](std::vector<std::int64_t> dims) { return checked_product(dims); };
  EXPECT_EQ(product({}), 1);
  EXPECT_EQ(product({3, 7}), 21);
  EXPECT_EQ(product({kMax, 1}), kMax);
  EXPECT_EQ(product({kMax, 2}), std::nullopt);
  EXPECT_EQ(product({std::int64_t{1} << 32, std::int64_t{1} << 32}), std::nullopt);
  EXPECT_EQ(product({-1}), std::nullopt);
  EXPECT_EQ(product({-2, -3}), std::nullopt);
}

TEST(DType, TableIsConsistent) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
    EXPECT_GE(dtype_bytes(dtype), 1u);
  }
  EXPECT_EQ(dtype_bytes(DType::kBF16), 2u);
  EXPECT_EQ(dtype_bytes(DType::kI64), 8u);
  EXPECT_TRUE(is_float(DType::kE4M3));
  EXPECT_FALSE(is_float(DType::kI8));
  EXPECT_EQ(dtype_from_name("F32"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
}

TEST(Tensor, ViewsItsMemory) {
  std::vector<float> data(6, 1.5f);
  const Tensor tensor{.dtype = DType::kF32, .shape = Shape{2, 3}, .data = data.data()};
  EXPECT_EQ(tensor.bytes(), 24u);
  tensor.as<float>()[5] = 2;
  EXPECT_EQ(data[5], 2);
}

}  // namespace
}  // namespace ingot
