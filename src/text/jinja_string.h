#pragma once

#include "text/jinja_limits.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Strings of the template engine: UTF-8 bytes that remember which of them came from the caller.
namespace ingot::jinja {

// Bytes [begin, end).
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const Span&) const = default;
};

// Immutable once shared. `foreign` marks the bytes that came from the request's data and not from
// the template; spans are sorted, not empty, and do not touch.
struct Text {
  Text(std::string text, std::vector<Span> spans, bool safe, Budget* owner);
  ~Text();
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  std::string bytes;
  std::vector<Span> foreign;
  // jinja2's Markup: adding an ordinary string to it escapes that string for HTML.
  bool html_safe = false;

 private:
  Budget* budget_;
  std::size_t charged_ = 0;
};

using TextPtr = std::shared_ptr<const Text>;

// Joins pieces and keeps their spans. Memory is charged as it grows.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}
  ~TextBuilder() { budget_->give_back(charged_); }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  void append(std::string_view bytes, bool foreign = false);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  // Bytes [begin, end) of `text` with what is marked there.
  void append(const Text& text, std::size_t begin, std::size_t end);
  std::size_t size() const { return bytes_.size(); }
  Budget& budget() const { return *budget_; }

  // The builder is empty afterwards.
  TextPtr finish(bool html_safe = false);

 private:
  void charge(std::size_t more);
  void mark(std::size_t begin, std::size_t end);

  Budget* budget_;
  std::size_t charged_ = 0;
  std::string bytes_;
  std::vector<Span> foreign_;
};

TextPtr make_text(Budget& budget, std::string bytes, bool foreign = false);
TextPtr sub_text(Budget& budget, const Text& text, std::size_t begin, std::size_t end);
// HTML escaping as markupsafe does: & < > ' ".
TextPtr escape_html(Budget& budget, const Text& text);

// Offset of `part` in `s` from `from` on, else npos. Linear time for any input (std::string::find
// is not, and templates may be hostile).
std::size_t find_bytes(std::string_view s, std::string_view part, std::size_t from = 0);

// Python's notions on code points. Bytes that are no UTF-8 count as one code point each.
std::size_t count_code_points(std::string_view s);
// Length in bytes of the code point at `at`.
std::size_t code_point_bytes(std::string_view s, std::size_t at);
char32_t decode_code_point(std::string_view s, std::size_t at, std::size_t length);
void append_utf8(std::string& out, char32_t c);
bool is_space(char32_t c);
bool is_printable(char32_t c);

// Byte range that remains when code points of `chars` (white space if null) are stripped.
struct StripSides {
  bool left = true;
  bool right = true;
};
Span strip_range(std::string_view s, const std::string_view* chars, StripSides sides = {});

enum class LetterCase { kLower, kUpper, kTitle, kCapitalize, kSwap };
// Keeps spans exactly when the bytes map one to one; else an affected text is marked whole.
TextPtr change_case(Budget& budget, const Text& text, LetterCase to);
// str.islower() / str.isupper().
bool has_case(std::string_view s, bool upper);
bool is_alphabetic(char32_t c);
bool is_decimal_digit(char32_t c);

}  // namespace ingot::jinja
