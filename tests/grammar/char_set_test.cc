#include "grammar/char_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace ingot::grammar {
namespace {

TEST(CharSet, RangesAreSortedJoinedAndWithoutSurrogates) {
  const CharSet set({{'c', 'f'}, {'a', 'b'}, {'e', 'h'}, {0xd000, 0xe000}});
  const std::vector<CharRange> wanted{{'a', 'h'}, {0xd000, 0xd7ff}, {0xe000, 0xe000}};
  EXPECT_EQ(std::vector<CharRange>(set.ranges().begin(), set.ranges().end()), wanted);
  EXPECT_FALSE(CharSet::all().contains(0xd800));
  EXPECT_FALSE(CharSet::all().contains(0xdfff));
  EXPECT_TRUE(CharSet::all().contains(0x10ffff));
}

TEST(CharSet, OperationsEqualThoseOfASetOfNumbers) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::set<char32_t> numbers[2];
    CharSet sets[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<CharRange> ranges;
      for (int i = 0; i < 4; ++i) {
        const auto first = static_cast<char32_t>(random() % 40);
        const auto last = first + static_cast<char32_t>(random() % 6);
        ranges.push_back({first, last});
        for (char32_t c = first; c <= last; ++c) numbers[side].insert(c);
      }
      sets[side] = CharSet(ranges);
    }
    for (char32_t c = 0; c < 60; ++c) {
      const bool a = numbers[0].contains(c);
      const bool b = numbers[1].contains(c);
      ASSERT_EQ(sets[0].contains(c), a);
      ASSERT_EQ(sets[0].complement().contains(c), !a);
      ASSERT_EQ(sets[0].united(sets[1]).contains(c), a || b);
      ASSERT_EQ(sets[0].intersected(sets[1]).contains(c), a && b);
      ASSERT_EQ(sets[0].minus(sets[1]).contains(c), a && !b);
    }
    ASSERT_EQ(sets[0].complement().complement(), sets[0]);
  }
}

}  // namespace
}  // namespace ingot::grammar
