#include "text/unicode.h"

#include "base/check.h"
#include "text/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace ingot {
namespace {

struct CategoryRange {
  std::uint32_t first;
  std::uint8_t category;
};

constexpr CategoryRange kRanges[] = {
#include "text/unicode_categories.inc"
};

constexpr CategoryRange kScripts[] = {
#include "text/unicode_scripts.inc"
};

constexpr char32_t kFlat = 0x34000;  // beyond it: few, huge ranges

std::uint32_t bits_of(std::uint8_t category, char32_t code) {
  std::uint32_t bits = 1u << category;
  if ((bits & (kZs | kZl | kZp)) != 0 || (code >= 9 && code <= 13) || code == 0x85) bits |= kSpace;
  return bits;
}

class CategoryTable {
 public:
  CategoryTable() : flat_(std::make_unique<std::uint32_t[]>(kFlat)) {
    for (std::size_t i = 0; i < std::size(kRanges); ++i) {
      const char32_t last = i + 1 < std::size(kRanges) ? kRanges[i + 1].first : 0x110000;
      for (char32_t c = kRanges[i].first; c < std::min(last, kFlat); ++c)
        flat_[c] = bits_of(kRanges[i].category, c);
    }
  }
  std::uint32_t at(char32_t code) const {
    if (code < kFlat) return flat_[code];
    const auto* range =
        std::upper_bound(std::begin(kRanges), std::end(kRanges), code,
                         [](char32_t c, const CategoryRange& r) { return c < r.first; });
    return bits_of((range - 1)->category, code);
  }

 private:
  std::unique_ptr<std::uint32_t[]> flat_;
};

// Other_Alphabetic of category So; the marks of Other_Alphabetic are word characters anyway.
bool is_alphabetic_symbol(char32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
         (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

// Canonical order: marks sorted by combining class within each run. A stable sort, since a run may
// be as long as the text.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  const auto combining = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  std::size_t i = 0;
  while (i < codes.size()) {
    if (combining(codes[i]) == 0) {
      ++i;
      continue;
    }
    std::size_t j = i;
    while (j < codes.size() && combining(codes[j]) != 0) ++j;
    if (j - i > 1)
      std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(i),
                       codes.begin() + static_cast<std::ptrdiff_t>(j),
                       [&](auto a, auto b) { return combining(a) < combining(b); });
    i = j;
  }
}

}  // namespace

std::uint32_t char_class(char32_t code) {
  static const CategoryTable table;
  return table.at(code);
}

int script_of(char32_t code) {
  const auto* range =
      std::upper_bound(std::begin(kScripts), std::end(kScripts), code,
                       [](char32_t c, const CategoryRange& r) { return c < r.first; });
  return range == std::begin(kScripts) ? 0 : (range - 1)->category;
}

bool is_word_char(char32_t code) {
  if (code < 0x80)
    return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
           (code >= 'A' && code <= 'Z') || code == '_';
  return is_in(code, kLetter | kMark | kNd | kNl | kPc) || code == 0x200c || code == 0x200d ||
         is_alphabetic_symbol(code);
}

bool is_bert_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  return is_in(c, kPunctuation);
}

std::string normal_form(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const auto decompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                        (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size() + 32);
  const char* p = text.data();
  const char* end = p + text.size();
  std::array<utf8proc_int32_t, 32> parts;  // the longest decomposition has 18
  while (p < end) {
    const auto code = static_cast<utf8proc_int32_t>(next_code(p, end));
    if (code < 0x80) {
      codes.push_back(code);
      continue;
    }
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(code, parts.data(), parts.size(), decompose, &boundary);
    check(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()), "decomposition");
    codes.insert(codes.end(), parts.begin(), parts.begin() + count);
  }
  order_marks(codes);
  if (compose) {
    const auto count = utf8proc_normalize_utf32(
        codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    check(count >= 0, "composition");
    codes.resize(static_cast<std::size_t>(count));
  }
  std::string out;
  out.reserve(text.size());
  for (const auto code : codes) append_utf8(out, static_cast<char32_t>(code));
  return out;
}

void append_lower(std::string& out, char32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code));
  } else if (code == 0x130) {
    out += "i\xcc\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  }
}

const char* grapheme_end(const char* begin, const char* end) {
  const char* p = begin;
  auto previous = static_cast<utf8proc_int32_t>(next_code(p, end));
  utf8proc_int32_t state = 0;
  while (p < end) {
    const char* q = p;
    const auto code = static_cast<utf8proc_int32_t>(next_code(q, end));
    if (utf8proc_grapheme_break_stateful(previous, code, &state)) break;
    previous = code;
    p = q;
  }
  return p;
}

}  // namespace ingot
