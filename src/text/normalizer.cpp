#include "text/normalizer.h"

#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/pieces.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <vector>

namespace ingot {
namespace {

using Scratch = RegexScratch;

// Rewrites the text character by character; f appends what a character becomes.
template <typename F>
void map_chars(std::string& text, F&& f) {
  std::string out;
  out.reserve(text.size());
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) f(out, next_code(p, end));
  text = std::move(out);
}

class Sequence : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(NormalizedText& text, Scratch& scratch) const override {
    for (const auto& part : parts_) part->apply(text, scratch);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

class Form : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  void apply(NormalizedText& text, Scratch&) const override {
    text.text = normal_form(text.text, form_);
  }

 private:
  NormalForm form_;
};

class Lowercase : public Normalizer {
 public:
  void apply(NormalizedText& text, Scratch&) const override { map_chars(text.text, append_lower); }
};

void remove_class(std::string& text, std::uint32_t mask) {
  map_chars(text, [&](std::string& out, char32_t c) {
    if (!is_in(c, mask)) append_utf8(out, c);
  });
}

class StripAccents : public Normalizer {
 public:
  void apply(NormalizedText& text, Scratch&) const override { remove_class(text.text, kMark); }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalizedText& text, Scratch&) const override {
    const char* begin = text.text.data();
    const char* end = begin + text.text.size();
    const char* first = begin;
    while (left_ && first < end) {
      const Utf8Char c = decode_utf8(first, end);
      if (!is_space(c.code)) break;
      first += c.size;
    }
    while (right_ && end > first) {
      const char* last = previous_start(first, end);
      if (!is_space(decode_utf8(last, end).code)) break;
      end = last;
    }
    if (first != begin) text.first = false;
    text.text = std::string(first, end);
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(NormalizedText& text, Scratch&) const override {
    if (!text.text.empty()) text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalizedText& text, Scratch& scratch) const override {
    if (pattern_.is_literal()) {
      if (!pattern_.text().empty()) literal(text.text);
      return;
    }
    std::vector<Segment> segments;
    pattern_.segments(text.text, scratch, segments);
    std::string out;
    out.reserve(text.text.size() + 16);
    for (const Segment& s : segments) {
      if (s.match)
        out += content_;
      else
        out.append(text.text, s.begin, s.end - s.begin);
      check_piece_text(out.size());
    }
    text.text = std::move(out);
  }

 private:
  void literal(std::string& text) const {
    const std::string& what = pattern_.text();
    std::string out;
    out.reserve(text.size() + text.size() / 2);
    std::size_t done = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, done)) {
      out.append(text, done, at - done);
      out += content_;
      done = at + what.size();
      check_piece_text(out.size());
    }
    out.append(text, done);
    text = std::move(out);
  }

  Pattern pattern_;
  std::string content_;
};

class Nmt : public Normalizer {
 public:
  void apply(NormalizedText& text, Scratch&) const override {
    map_chars(text.text, [](std::string& out, char32_t c) {
      if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
          c == 0x9f)
        return;
      const bool blank = c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 ||
                         (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
                         c == 0x2581 || c == 0xfeff || c == 0xfffd;
      append_utf8(out, blank ? U' ' : c);
    });
  }
};

class ByteLevelNormalizer : public Normalizer {
 public:
  void apply(NormalizedText& text, Scratch&) const override {
    text.text = to_byte_level(text.text);
  }
};

bool is_chinese(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

class Bert : public Normalizer {
 public:
  explicit Bert(const Json& json)
      : clean_(bool_field(json, "clean_text", true)),
        chinese_(bool_field(json, "handle_chinese_chars", true)),
        lowercase_(bool_field(json, "lowercase", true)),
        accents_(bool_field(json, "strip_accents", lowercase_)) {}

  void apply(NormalizedText& text, Scratch&) const override {
    if (clean_) map_chars(text.text, clean);
    if (chinese_)
      map_chars(text.text, [](std::string& out, char32_t c) {
        if (is_chinese(c)) out += ' ';
        append_utf8(out, c);
        if (is_chinese(c)) out += ' ';
      });
    if (accents_) {
      text.text = normal_form(text.text, NormalForm::kNfd);
      remove_class(text.text, kMn);
    }
    if (lowercase_) map_chars(text.text, append_lower);
  }

 private:
  static void clean(std::string& out, char32_t c) {
    if (c == 0 || c == 0xfffd) return;
    if (c == '\t' || c == '\n' || c == '\r' || is_space(c)) {
      if (is_in(c, kCc) && c != '\t' && c != '\n' && c != '\r') return;  // control comes first
      out += ' ';
    } else if (!is_in(c, kCc | kCf | kCo)) {
      append_utf8(out, c);
    }
  }

  bool clean_, chinese_, lowercase_, accents_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Json& json, std::string_view charsmap) {
  if (json.is_null()) return nullptr;
  const std::string type = string_field(json, "type");
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> parts;
    for (const Json& part : array_field(json, "normalizers"))
      if (auto made = make_normalizer(part, charsmap)) parts.push_back(std::move(made));
    return std::make_unique<Sequence>(std::move(parts));
  }
  if (type == "NFC") return std::make_unique<Form>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<Form>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<Form>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<Form>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Strip")
    return std::make_unique<Strip>(bool_field(json, "strip_left", true),
                                   bool_field(json, "strip_right", true));
  if (type == "Prepend") return std::make_unique<Prepend>(string_field(json, "prepend"));
  if (type == "Replace") {
    const Json* pattern = find_field(json, "pattern");
    if (pattern == nullptr) bad_field("pattern", "a String or a Regex");
    return std::make_unique<Replace>(Pattern::from_json(*pattern, "normalizer"),
                                     string_field(json, "content"));
  }
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "BertNormalizer") return std::make_unique<Bert>(json);
  if (type == "Precompiled") return make_precompiled(charsmap);
  if (type == "ingot.sentencepiece") return make_sentencepiece_normalizer(json, charsmap);
  unknown_type("normalizer", type);
}

}  // namespace ingot
