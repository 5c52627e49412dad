#pragma once

#include <span>
#include <vector>

namespace ingot::grammar {

struct CharRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  bool operator==(const CharRange&) const = default;
};

// A set of Unicode scalar values: sorted, disjoint, not adjacent ranges. Surrogates are never
// members, so no text made of members is ill-formed UTF-8.
class CharSet {
 public:
  CharSet() = default;
  // Ranges in any order; they may overlap.
  explicit CharSet(std::vector<CharRange> ranges);
  static const CharSet& all();
  static CharSet one(char32_t code) { return CharSet({{code, code}}); }

  bool empty() const { return ranges_.empty(); }
  bool contains(char32_t code) const;
  std::span<const CharRange> ranges() const { return ranges_; }

  CharSet complement() const;
  CharSet united(const CharSet& other) const;
  CharSet intersected(const CharSet& other) const;
  CharSet minus(const CharSet& other) const { return intersected(other.complement()); }

  bool operator==(const CharSet&) const = default;

 private:
  std::vector<CharRange> ranges_;
};

}  // namespace ingot::grammar
