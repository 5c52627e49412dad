#include "text/jinja_text_ops.h"

#include <algorithm>

namespace ingot::jinja {

TextPtr replace(Budget& budget, const Text& text, const Replacement& what) {
  const std::string_view s = text.bytes;
  const std::string_view from = what.from.bytes;
  std::int64_t left = what.count < 0 ? std::int64_t{1} << 62 : what.count;
  TextBuilder out(budget);
  std::size_t at = 0;
  if (from.empty()) {  // before every code point and at the end
    while (left-- > 0) {
      out.append(what.to);
      if (at >= s.size()) break;
      const std::size_t next = at + code_point_bytes(s, at);
      out.append(text, at, next);
      at = next;
    }
    if (at < s.size()) out.append(text, at, s.size());
    return out.finish(text.html_safe);
  }
  budget.work(s.size());
  while (left-- > 0) {
    const std::size_t found = find_bytes(s, from, at);
    if (found == s.npos) break;
    out.append(text, at, found);
    out.append(what.to);
    at = found + from.size();
  }
  out.append(text, at, s.size());
  return out.finish(text.html_safe);
}

namespace {

std::vector<Span> split_at(std::string_view s, std::string_view separator, const SplitRule& rule) {
  std::vector<Span> parts;
  std::int64_t left = rule.limit < 0 ? std::int64_t{1} << 62 : rule.limit;
  if (rule.from_right) {
    std::size_t end = s.size();
    while (left-- > 0 && end >= separator.size()) {
      const std::size_t found = s.substr(0, end).rfind(separator);
      if (found == s.npos) break;
      parts.push_back({found + separator.size(), end});
      end = found;
    }
    parts.push_back({0, end});
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  std::size_t at = 0;
  while (left-- > 0) {
    const std::size_t found = find_bytes(s, separator, at);
    if (found == s.npos) break;
    parts.push_back({at, found});
    at = found + separator.size();
  }
  parts.push_back({at, s.size()});
  return parts;
}

std::vector<Span> words(std::string_view s) {
  std::vector<Span> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0, n = 0; i < s.size(); i += n) {
    n = code_point_bytes(s, i);
    const bool space = is_space(decode_code_point(s, i, n));
    if (inside && space) parts.push_back({begin, i});
    if (!inside && !space) begin = i;
    inside = !space;
  }
  if (inside) parts.push_back({begin, s.size()});
  return parts;
}

// With a limit the last piece keeps its inner white space.
std::vector<Span> split_words(std::string_view s, const SplitRule& rule) {
  std::vector<Span> parts = words(s);
  if (rule.limit < 0 || parts.size() <= static_cast<std::size_t>(rule.limit)) return parts;
  const auto limit = static_cast<std::size_t>(rule.limit);
  if (rule.from_right) {
    const std::size_t extra = parts.size() - limit;
    const Span merged{strip_range(s, nullptr, {.left = false}).begin, parts[extra - 1].end};
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(extra));
    parts.insert(parts.begin(), merged);
  } else {
    parts[limit].end = s.size();
    parts.resize(limit + 1);
  }
  return parts;
}

}  // namespace

std::vector<TextPtr> split(Budget& budget, const Text& text, const SplitRule& rule) {
  const std::size_t needle = rule.from_right && rule.separator ? rule.separator->bytes.size() : 1;
  budget.work(text.bytes.size() * needle);  // rfind may compare that often
  // The spans take up to 16 bytes for each byte of text.
  budget.take(text.bytes.size() * sizeof(Span));
  budget.give_back(text.bytes.size() * sizeof(Span));
  if (rule.separator && rule.separator->bytes.empty()) fail_template("empty separator");
  const std::vector<Span> parts = rule.separator ? split_at(text.bytes, rule.separator->bytes, rule)
                                                 : split_words(text.bytes, rule);
  std::vector<TextPtr> out;
  for (const Span& part : parts) out.push_back(sub_text(budget, text, part.begin, part.end));
  return out;
}

std::vector<TextPtr> split_lines(Budget& budget, const Text& text, bool keep_ends) {
  const std::string_view s = text.bytes;
  std::vector<TextPtr> out;
  std::size_t begin = 0;
  for (std::size_t i = 0, n = 0; i < s.size(); i += n) {
    n = code_point_bytes(s, i);
    const char32_t c = decode_code_point(s, i, n);
    const bool ends =
        (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!ends) continue;
    if (c == '\r' && i + 1 < s.size() && s[i + 1] == '\n') n = 2;
    out.push_back(sub_text(budget, text, begin, keep_ends ? i + n : i));
    begin = i + n;
  }
  if (begin < s.size()) out.push_back(sub_text(budget, text, begin, s.size()));
  return out;
}

TextPtr strip(Budget& budget, const Text& text, const Text* chars, StripSides sides) {
  std::string_view set;
  budget.work(text.bytes.size());
  if (chars) {
    set = chars->bytes;
    budget.work(set.size() * text.bytes.size());
  }
  const Span range = strip_range(text.bytes, chars ? &set : nullptr, sides);
  return sub_text(budget, text, range.begin, range.end);
}

// jinja2's filter: the first line and empty lines stay as they are unless asked for.
TextPtr indent(Budget& budget, const Text& text, const IndentRule& rule) {
  const TextPtr with_end = [&] {
    TextBuilder out(budget);
    out.append(text);
    out.append("\n");
    return out.finish();
  }();
  const std::vector<TextPtr> lines = split_lines(budget, *with_end);
  TextBuilder out(budget);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i) out.append("\n");
    const bool wanted = i == 0 ? rule.first : rule.blank || !lines[i]->bytes.empty();
    if (wanted) out.append(*rule.indention);
    out.append(*lines[i]);
  }
  return out.finish(text.html_safe);
}

TextPtr pad(Budget& budget, const Text& text, std::int64_t width, char align,
            std::string_view fill) {
  budget.work(text.bytes.size());
  const auto length = static_cast<std::int64_t>(count_code_points(text.bytes));
  const std::int64_t missing = std::max<std::int64_t>(0, width - length);
  if (missing > static_cast<std::int64_t>(budget.limits().max_output_bytes))
    fail_template("a string longer than {} bytes", budget.limits().max_output_bytes);
  std::int64_t left = 0;
  if (align == '>') left = missing;
  // CPython's str.center puts the odd blank to the left when the width is odd.
  if (align == '^') left = missing / 2 + (missing & width & 1);
  TextBuilder out(budget);
  for (std::int64_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (std::int64_t i = left; i < missing; ++i) out.append(fill);
  return out.finish(text.html_safe);
}

}  // namespace ingot::jinja
