#include "grammar/number_range.h"

#include "base/check.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

namespace ingot::grammar {

namespace {

using Wide = __int128;

CharSet digit_range(char first, char last) {
  return CharSet({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}

std::string padded(Wide value, int width) {
  std::string text(static_cast<std::size_t>(width), '0');
  for (std::size_t i = text.size(); i-- > 0; value /= 10)
    text[i] = static_cast<char>('0' + static_cast<int>(value % 10));
  return text;
}

Wide power_of_ten(int exponent) {
  Wide value = 1;
  for (int i = 0; i < exponent; ++i) value *= 10;
  return value;
}

// Texts of decimal digits, all of one length, from `low` to `high`. What is common to whole and
// decimal numbers; the ends of a text are decided by the derived class.
struct DigitSpan {
  std::string low, high;
};

// Whole numbers with a remainder kept in view.
class WholeNumbers {
 public:
  WholeNumbers(RuleSet& rules, int multiple) : rules_(rules), multiple_(multiple) {}

  // 0 < low <= high.
  ExprId between(std::int64_t low, std::int64_t high) {
    std::vector<ExprId> choices;
    const auto low_size = static_cast<int>(std::to_string(low).size());
    const auto high_size = static_cast<int>(std::to_string(high).size());
    for (int size = low_size; size <= high_size; ++size) {
      const DigitSpan span{
          size == low_size ? std::to_string(low) : padded(power_of_ten(size - 1), size),
          size == high_size ? std::to_string(high)
                            : std::string(static_cast<std::size_t>(size), '9')};
      choices.push_back(from(span, {.tight_low = true, .tight_high = true}));
    }
    return rules_.choice(std::move(choices));
  }

 private:
  struct State {
    std::size_t at = 0;
    bool tight_low = false, tight_high = false;
    int remainder = 0;
  };

  ExprId from(const DigitSpan& span, const State& state) {
    const std::size_t left = span.low.size() - state.at;
    if (left == 0) return state.remainder == 0 ? rules_.text("") : rules_.never();
    if (!state.tight_low && !state.tight_high) return any(static_cast<int>(left), state.remainder);
    const char first = state.tight_low ? span.low[state.at] : '0';
    const char last = state.tight_high ? span.high[state.at] : '9';
    std::vector<ExprId> choices;
    for (char digit = first; digit <= last;) {
      // Digits between the ends that lead to the same place go together.
      const bool is_low = state.tight_low && digit == first;
      const bool is_high = state.tight_high && digit == last;
      char end = digit;
      if (multiple_ == 1 && !is_low && !is_high)
        end = static_cast<char>(state.tight_high ? last - 1 : last);
      const State next{state.at + 1, is_low, is_high, step(state.remainder, digit)};
      choices.push_back(rules_.sequence({rules_.chars(digit_range(digit, end)), from(span, next)}));
      digit = static_cast<char>(end + 1);
    }
    return rules_.choice(std::move(choices));
  }

  int step(int remainder, char digit) const { return (remainder * 10 + (digit - '0')) % multiple_; }

  // Any `count` digits that bring the remainder to zero.
  ExprId any(int count, int remainder) {
    if (multiple_ == 1) return rules_.repeat(rules_.chars(digit_range('0', '9')), count, count);
    if (count == 0) return remainder == 0 ? rules_.text("") : rules_.never();
    const auto it = any_.find({count, remainder});
    if (it != any_.end()) return rules_.rule(it->second);
    const int rule = rules_.new_rule();
    any_[{count, remainder}] = rule;
    std::vector<ExprId> choices;
    for (char digit = '0'; digit <= '9'; ++digit)
      choices.push_back(rules_.sequence(
          {rules_.chars(digit_range(digit, digit)), any(count - 1, step(remainder, digit))}));
    rules_.define(rule, rules_.choice(std::move(choices)));
    return rules_.rule(rule);
  }

  RuleSet& rules_;
  int multiple_;
  std::map<std::pair<int, int>, int> any_;  // by digits left and remainder
};

}  // namespace

ExprId integers_between(RuleSet& rules, std::int64_t low, std::int64_t high, int multiple) {
  check(low >= -kLargestInteger && high <= kLargestInteger && multiple >= 1 &&
            multiple <= kLargestMultiple,
        "integers_between: out of range");
  if (low > high) return rules.never();
  WholeNumbers numbers(rules, multiple);
  std::vector<ExprId> choices;
  if (low <= 0 && high >= 0) choices.push_back(rules.text("0"));
  if (high > 0) choices.push_back(numbers.between(std::max<std::int64_t>(low, 1), high));
  if (low < 0)
    choices.push_back(
        rules.sequence({rules.text("-"), numbers.between(std::max<std::int64_t>(-high, 1), -low)}));
  return rules.choice(std::move(choices));
}

DecimalBound decimal_of(double value) {
  std::string shortest(32, '\0');
  const auto end = std::to_chars(shortest.data(), shortest.data() + shortest.size(), value,
                                 std::chars_format::scientific);
  check(end.ec == std::errc{}, "a double fits in 32 characters");
  shortest.resize(static_cast<std::size_t>(end.ptr - shortest.data()));
  const std::size_t e = shortest.find('e');
  DecimalBound bound;
  std::string digits;
  for (const char c : shortest.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  bound.exponent = std::stoi(shortest.substr(e + 1)) - static_cast<int>(digits.size()) + 1;
  bound.digits = std::stoll(digits) * (shortest[0] == '-' ? -1 : 1);
  return bound;
}

namespace {

constexpr int kDecimalDigits = 15;
constexpr int kOpenDigits = 12;  // before the point, where a range has no end

struct Scaled {
  Wide value;    // floor
  bool inexact;  // something was cut off
};

// |bound| * 10^scale. Large values saturate far above any number that is written.
Scaled scaled(const DecimalBound& bound, int scale) {
  const Wide digits = bound.digits < 0 ? -static_cast<Wide>(bound.digits) : bound.digits;
  const int shift = bound.exponent + scale;
  if (digits == 0) return {0, false};
  if (shift > 18) return {power_of_ten(35), false};
  if (shift >= 0) return {digits * power_of_ten(shift), false};
  if (shift < -36) return {0, true};
  const Wide divisor = power_of_ten(-shift);
  return {digits / divisor, digits % divisor != 0};
}

Wide lowest_from(const DecimalBound& bound, int scale) {
  const Scaled s = scaled(bound, scale);
  return s.value + (s.inexact || bound.exclusive ? 1 : 0);
}

Wide highest_to(const DecimalBound& bound, int scale) {
  const Scaled s = scaled(bound, scale);
  return s.value - (!s.inexact && bound.exclusive ? 1 : 0);
}

// Numbers "I.F": `whole` digits before the point, up to low.size() - whole after it, which may be
// fewer where the rest is zeros.
class Decimals {
 public:
  Decimals(RuleSet& rules, DigitSpan span, std::size_t whole)
      : rules_(rules), span_(std::move(span)), whole_(whole) {}

  ExprId from(std::size_t at, bool tight_low, bool tight_high) {
    if (!tight_low && !tight_high) return any(at);
    std::vector<ExprId> choices;
    const bool may_end =
        at >= whole_ && (!tight_low || span_.low.find_first_not_of('0', at) == std::string::npos);
    // Right behind the point a digit must follow, so the end without one is offered before it.
    if (may_end && at != whole_) choices.push_back(rules_.text(""));
    if (at < span_.low.size()) {
      const ExprId digits = digit(at, tight_low, tight_high);
      if (at == whole_) {
        if (may_end) choices.push_back(rules_.text(""));
        choices.push_back(rules_.sequence({rules_.text("."), digits}));
      } else {
        choices.push_back(digits);
      }
    } else if (at == whole_ && may_end) {
      choices.push_back(rules_.text(""));
    }
    return rules_.choice(std::move(choices));
  }

 private:
  ExprId digit(std::size_t at, bool tight_low, bool tight_high) {
    const char first = tight_low ? span_.low[at] : '0';
    const char last = tight_high ? span_.high[at] : '9';
    std::vector<ExprId> choices;
    for (char c = first; c <= last;) {
      const bool is_low = tight_low && c == first;
      const bool is_high = tight_high && c == last;
      char end = c;
      if (!is_low && !is_high) end = static_cast<char>(tight_high ? last - 1 : last);
      choices.push_back(
          rules_.sequence({rules_.chars(digit_range(c, end)), from(at + 1, is_low, is_high)}));
      c = static_cast<char>(end + 1);
    }
    return rules_.choice(std::move(choices));
  }

  ExprId any(std::size_t at) {
    const ExprId one = rules_.chars(digit_range('0', '9'));
    const auto left = static_cast<int>(span_.low.size() - std::max(at, whole_));
    if (at > whole_) return rules_.repeat(one, 0, left);
    const auto before = static_cast<int>(whole_ - at);
    const ExprId fraction =
        left == 0
            ? rules_.text("")
            : rules_.optional(rules_.sequence({rules_.text("."), rules_.repeat(one, 1, left)}));
    return rules_.sequence({rules_.repeat(one, before, before), fraction});
  }

  RuleSet& rules_;
  DigitSpan span_;
  std::size_t whole_;
};

// Numbers of |low| to |high| without a sign.
ExprId magnitudes(RuleSet& rules, const DecimalBound& low,
                  const std::optional<DecimalBound>& high) {
  std::vector<ExprId> choices;
  for (int whole = 1; whole <= (high ? kDecimalDigits : kOpenDigits); ++whole) {
    const int fraction = kDecimalDigits - whole;
    const Wide first = whole == 1 ? Wide{0} : power_of_ten(kDecimalDigits - 1);
    const Wide last = power_of_ten(kDecimalDigits) - 1;
    const Wide from = std::max(first, lowest_from(low, fraction));
    const Wide to = high ? std::min(last, highest_to(*high, fraction)) : last;
    if (from > to) continue;
    Decimals numbers(rules, {padded(from, kDecimalDigits), padded(to, kDecimalDigits)},
                     static_cast<std::size_t>(whole));
    choices.push_back(numbers.from(0, true, true));
  }
  return rules.choice(std::move(choices));
}

}  // namespace

ExprId decimals_between(RuleSet& rules, const std::optional<DecimalBound>& low,
                        const std::optional<DecimalBound>& high) {
  std::vector<ExprId> choices;
  const DecimalBound above_zero{.exclusive = true};
  if (!high || high->digits > 0 || (high->digits == 0 && !high->exclusive)) {
    const bool from_zero = !low || low->digits < 0;
    choices.push_back(magnitudes(rules, from_zero ? DecimalBound{} : *low, high));
  }
  if (!low || low->digits < 0) {
    const bool to_zero = !high || high->digits >= 0;
    const ExprId below = magnitudes(rules, to_zero ? above_zero : *high, low);
    choices.push_back(rules.sequence({rules.text("-"), below}));
  }
  return rules.choice(std::move(choices));
}

}  // namespace ingot::grammar
