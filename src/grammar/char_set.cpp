#include "grammar/char_set.h"

#include <algorithm>

namespace ingot::grammar {

namespace {

constexpr char32_t kLastCode = 0x10ffff;
constexpr char32_t kFirstSurrogate = 0xd800;
constexpr char32_t kLastSurrogate = 0xdfff;

// Whether `next` continues `last` when surrogates are left out.
bool touches(char32_t last, char32_t next) {
  return next <= last + 1 || (last + 1 == kFirstSurrogate && next == kLastSurrogate + 1);
}

}  // namespace

CharSet::CharSet(std::vector<CharRange> ranges) {
  std::vector<CharRange> cut;
  for (CharRange range : ranges) {
    range.last = std::min(range.last, kLastCode);
    if (range.first > range.last) continue;
    if (range.last < kFirstSurrogate || range.first > kLastSurrogate) {
      cut.push_back(range);
      continue;
    }
    if (range.first < kFirstSurrogate) cut.push_back({range.first, kFirstSurrogate - 1});
    if (range.last > kLastSurrogate) cut.push_back({kLastSurrogate + 1, range.last});
  }
  std::ranges::sort(cut, {}, &CharRange::first);
  for (const CharRange& range : cut) {
    const bool same_side = !ranges_.empty() && (ranges_.back().last < kFirstSurrogate) ==
                                                   (range.first < kFirstSurrogate);
    if (same_side && touches(ranges_.back().last, range.first)) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

const CharSet& CharSet::all() {
  static const CharSet set({{0, kLastCode}});
  return set;
}

bool CharSet::contains(char32_t code) const {
  const auto it = std::ranges::upper_bound(ranges_, code, {}, &CharRange::first);
  return it != ranges_.begin() && code <= std::prev(it)->last;
}

CharSet CharSet::complement() const {
  std::vector<CharRange> gaps;
  char32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) gaps.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCode) gaps.push_back({next, kLastCode});
  return CharSet(std::move(gaps));
}

CharSet CharSet::united(const CharSet& other) const {
  std::vector<CharRange> both = ranges_;
  both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
  return CharSet(std::move(both));
}

CharSet CharSet::intersected(const CharSet& other) const {
  std::vector<CharRange> common;
  for (auto a = ranges_.begin(), b = other.ranges_.begin();
       a != ranges_.end() && b != other.ranges_.end();) {
    const char32_t first = std::max(a->first, b->first);
    const char32_t last = std::min(a->last, b->last);
    if (first <= last) common.push_back({first, last});
    if (a->last < b->last) {
      ++a;
    } else {
      ++b;
    }
  }
  return CharSet(std::move(common));
}

}  // namespace ingot::grammar
