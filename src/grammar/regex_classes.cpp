#include "base/check.h"
#include "grammar/regex_parser.h"
#include "text/unicode.h"

namespace ingot::grammar {

namespace {

CharSet with_properties(std::uint32_t mask) {
  std::vector<CharRange> ranges;
  for (char32_t code = 0; code <= 0x10ffff; ++code) {
    if (!is_in(code, mask)) continue;
    if (!ranges.empty() && ranges.back().last + 1 == code) {
      ranges.back().last = code;
    } else {
      ranges.push_back({code, code});
    }
  }
  return CharSet(std::move(ranges));
}

}  // namespace

const ClassEscape& class_escape(char lower_case_letter) {
  static const ClassEscape digits{CharSet({{'0', '9'}}),
                                  with_properties(kNd).united(CharSet({{'0', '9'}}))};
  static const ClassEscape words{
      CharSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}),
      // Unassigned characters too: a later Unicode may make letters of them.
      with_properties(kLetter | kMark | kNumber | kPc | kCn)
          .united(CharSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}, {0x200c, 0x200d}}))};
  // Narrow: ASCII's, which ECMAScript, Python and RE2-like engines agree on.
  static const ClassEscape spaces{CharSet({{'\t', '\r'}, {' ', ' '}}),
                                  with_properties(kSpace).united(CharSet({{'\t', '\r'},
                                                                          {0x1c, ' '},
                                                                          {0x85, 0x85},
                                                                          {0xa0, 0xa0},
                                                                          {0x180e, 0x180e},
                                                                          {0xfeff, 0xfeff}}))};
  switch (lower_case_letter) {
    case 'd':
      return digits;
    case 'w':
      return words;
    case 's':
      return spaces;
    default:
      check(false, "no such class escape");
  }
  return digits;
}

}  // namespace ingot::grammar
