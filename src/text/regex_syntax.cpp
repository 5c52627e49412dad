#include "base/error.h"
#include "text/regex.h"

#include <vector>

// Oniguruma (Ruby syntax, UTF-8) to PCRE2. Most of a pattern is the same; what differs in meaning
// is rewritten, what has no counterpart is refused.
namespace ingot {
namespace {

constexpr std::string_view kSpaceSet =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWordSet = R"(\p{L}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHexSet = "0-9a-fA-F";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) item();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::kBadInput, "[tokenizer.regex] pattern {:?} at {}: {} is not supported",
         std::string(in_), at_, what);
  }

  void item() {
    const char c = in_[at_];
    if (c == '\\') {
      atom_ = out_.size();
      escape(false);
    } else if (c == '[') {
      atom_ = out_.size();
      set();
    } else if (c == '(') {
      groups_.push_back(out_.size());
      open_group();
    } else if (c == ')') {
      if (groups_.empty()) refuse("a closing parenthesis without its opening");
      atom_ = groups_.back();
      groups_.pop_back();
      out_ += in_[at_++];
    } else if (c == '{') {
      interval();
    } else if (c == '*' || c == '+' || c == '?' || c == '|' || c == '^' || c == '$') {
      out_ += in_[at_++];
    } else {
      atom_ = out_.size();
      out_ += in_[at_++];
      while (at_ < in_.size() && (in_[at_] & 0xc0) == 0x80) out_ += in_[at_++];
    }
  }

  // {n,m}+ repeats the whole there; in PCRE2 it would be possessive.
  void interval() {
    const std::size_t close = in_.find('}', at_);
    if (close == std::string_view::npos || close == at_ + 1) {
      out_ += in_[at_++];
      return;
    }
    const std::string_view body = in_.substr(at_ + 1, close - at_ - 1);
    if (body.find_first_not_of("0123456789,") != std::string_view::npos) {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += body.front() == ',' ? "{0" + std::string(body) + "}" : "{" + std::string(body) + "}";
    at_ = close + 1;
    if (at_ < in_.size() && in_[at_] == '+') {
      out_.insert(atom_, "(?:");
      out_ += ")+";
      ++at_;
    }
  }

  void open_group() {
    out_ += in_[at_++];
    if (at_ >= in_.size() || in_[at_] != '?') return;
    out_ += in_[at_++];
    if (at_ < in_.size() && (in_[at_] == '~' || in_[at_] == '@')) refuse("this kind of group");
    // Options: m there lets the dot match newlines, which is s here.
    std::size_t end = at_;
    while (end < in_.size() &&
           (in_[end] == 'i' || in_[end] == 'm' || in_[end] == 'x' || in_[end] == '-'))
      ++end;
    if (end < in_.size() && (in_[end] == ':' || in_[end] == ')'))
      for (; at_ < end; ++at_) out_ += in_[at_] == 'm' ? 's' : in_[at_];
  }

  void put_set(std::string_view set, bool inside, bool negated) {
    if (inside && negated) refuse("a negated class within a set");
    if (!inside) out_ += negated ? "[^" : "[";
    out_ += set;
    if (!inside) out_ += ']';
  }

  void escape(bool inside) {
    if (at_ + 1 >= in_.size()) refuse("a backslash at the end");
    const char c = in_[at_ + 1];
    at_ += 2;
    switch (c) {
      case 's':
      case 'S':
        // \S within a set: PCRE2's differs only for U+180E.
        if (inside && c == 'S') {
          out_ += "\\S";
          return;
        }
        return put_set(kSpaceSet, inside, c == 'S');
      case 'w':
      case 'W':
        return put_set(kWordSet, inside, c == 'W');
      case 'h':
      case 'H':
        return put_set(kHexSet, inside, c == 'H');
      case 'u':
        if (at_ + 4 > in_.size()) refuse("a short \\u");
        out_ += "\\x{" + std::string(in_.substr(at_, 4)) + "}";
        at_ += 4;
        return;
      case 'p':
      case 'P':
      case 'x': {
        out_ += {'\\', c};
        if (at_ < in_.size() && in_[at_] == '{') {
          const std::size_t close = in_.find('}', at_);
          if (close == std::string_view::npos) refuse("an open brace");
          out_ += in_.substr(at_, close + 1 - at_);
          at_ = close + 1;
        }
        return;
      }
      case 'K':
      case 'k':
      case 'g':
        refuse("this escape");
      default:
        out_ += {'\\', c};
        while (at_ < in_.size() && (in_[at_] & 0xc0) == 0x80) out_ += in_[at_++];
    }
  }

  void set() {
    out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == '^') out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == ']') {
      out_ += "\\]";
      ++at_;
    }
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '\\') {
        escape(true);
      } else if (in_.substr(at_).starts_with("&&")) {
        refuse("an intersection of sets");
      } else if (in_.substr(at_).starts_with("[:")) {
        const std::size_t close = in_.find(":]", at_ + 2);
        if (close == std::string_view::npos) refuse("an open [:");
        out_ += in_.substr(at_, close + 2 - at_);
        at_ = close + 2;
      } else if (in_[at_] == '[') {
        inner_set();
      } else {
        out_ += in_[at_++];
      }
    }
    if (at_ >= in_.size()) refuse("an open set");
    out_ += in_[at_++];
  }

  // A plain set within a set is a union: its members join the outer one.
  void inner_set() {
    ++at_;
    if (at_ < in_.size() && in_[at_] == '^') refuse("a negated set within a set");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '[' || in_.substr(at_).starts_with("&&")) refuse("a set within a set");
      if (in_[at_] == '\\')
        escape(true);
      else
        out_ += in_[at_++];
    }
    if (at_ >= in_.size()) refuse("an open set");
    ++at_;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t atom_ = 0;             // where the last atom begins in out_
  std::vector<std::size_t> groups_;  // where open groups begin in out_
};

}  // namespace

std::string to_pcre2(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace ingot
