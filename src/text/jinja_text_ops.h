#pragma once

#include "text/jinja_string.h"

#include <cstdint>
#include <optional>
#include <vector>

// Python's string operations, each keeping track of foreign bytes.
namespace ingot::jinja {

struct Replacement {
  const Text& from;
  const Text& to;
  std::int64_t count = -1;  // negative: all
};
TextPtr replace(Budget& budget, const Text& text, const Replacement& what);

// str.split / rsplit; no separator splits at runs of white space. `limit` < 0: no limit.
struct SplitRule {
  const Text* separator = nullptr;
  std::int64_t limit = -1;
  bool from_right = false;
};
std::vector<TextPtr> split(Budget& budget, const Text& text, const SplitRule& rule);
std::vector<TextPtr> split_lines(Budget& budget, const Text& text, bool keep_ends = false);

TextPtr strip(Budget& budget, const Text& text, const Text* chars, StripSides sides = {});

struct IndentRule {
  TextPtr indention;
  bool first = false;
  bool blank = false;
};
TextPtr indent(Budget& budget, const Text& text, const IndentRule& rule);

// Fills up to `width` code points: align '<', '>' or '^' (str.center's rounding).
TextPtr pad(Budget& budget, const Text& text, std::int64_t width, char align,
            std::string_view fill = " ");

}  // namespace ingot::jinja
