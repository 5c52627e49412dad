#pragma once

#include "grammar/rule_set.h"

#include <cstdint>
#include <optional>

namespace ingot::grammar {

// Integers are written with at most this many digits.
inline constexpr std::int64_t kLargestInteger = 999'999'999'999'999'999;

// Whole numbers of [low, high], |ends| <= kLargestInteger, that `multiple` divides, 1 <= multiple
// <= kLargestMultiple; without leading zeros or "-0". `never` if there is none.
inline constexpr int kLargestMultiple = 100;
ExprId integers_between(RuleSet& rules, std::int64_t low, std::int64_t high, int multiple);

// An end of a range of decimal numbers: digits * 10^exponent, exactly.
struct DecimalBound {
  std::int64_t digits = 0;  // signed
  int exponent = 0;
  bool exclusive = false;
};
// The decimal number whose double this is and that has the fewest digits. Finite values only.
DecimalBound decimal_of(double value);

// Decimal numbers between the ends (absent: none), without exponent, of at most 15 digits: few
// enough that reading them as doubles keeps their order. `never` if there is none.
ExprId decimals_between(RuleSet& rules, const std::optional<DecimalBound>& low,
                        const std::optional<DecimalBound>& high);

}  // namespace ingot::grammar
