#include "grammar/rule_set.h"

#include "base/error.h"
#include "text/utf8.h"

#include <algorithm>
#include <map>

namespace ingot::grammar {

void Deadline::check() const {
  if (cancelled()) fail(ErrorCode::kInterrupted, "[guided.compile] cancelled");
  if (Clock::now() > end_)
    fail(ErrorCode::kRequest,
         "[guided.compile] the grammar takes too long to compile: make it smaller");
}

ExprId RuleSet::add(Expr expr) {
  if (exprs_.size() >= limits_.max_expressions)
    fail(ErrorCode::kRequest, "[guided.size] the grammar grows beyond {} expressions",
         limits_.max_expressions);
  if ((exprs_.size() & 1023) == 0) deadline_.check();
  exprs_.push_back(std::move(expr));
  return static_cast<ExprId>(exprs_.size() - 1);
}

ExprId RuleSet::chars(CharSet set) {
  if (set.empty()) return never();
  const auto ranges = set.ranges();
  if (ranges.size() == 1 && ranges[0].first == ranges[0].last) {
    std::string one;
    append_utf8(one, ranges[0].first);
    return text(one);
  }
  return add({.kind = ExprKind::kChars, .chars = std::move(set)});
}

ExprId RuleSet::sequence(std::vector<ExprId> parts) {
  std::vector<ExprId> flat;
  std::string joined;  // neighbouring texts become one
  const auto close_text = [&] {
    if (!joined.empty()) flat.push_back(text(joined));
    joined.clear();
  };
  const auto append = [&](ExprId id) {
    if (expr(id).kind == ExprKind::kText) {
      joined += expr(id).text;
    } else {
      close_text();
      flat.push_back(id);
    }
  };
  for (const ExprId id : parts) {
    if (is_never(id)) return id;
    if (expr(id).kind == ExprKind::kSequence) {
      for (const ExprId inner : std::vector<ExprId>(expr(id).parts)) append(inner);
    } else {
      append(id);
    }
  }
  close_text();
  if (flat.empty()) return text("");
  if (flat.size() == 1) return flat[0];
  return add({.kind = ExprKind::kSequence, .parts = std::move(flat)});
}

// Single characters among the parts become one class.
std::vector<ExprId> RuleSet::with_characters_joined(std::vector<ExprId> parts) {
  std::vector<CharRange> ranges;
  const auto is_character = [&](ExprId id) {
    const Expr& e = expr(id);
    if (e.kind == ExprKind::kChars) {
      ranges.insert(ranges.end(), e.chars.ranges().begin(), e.chars.ranges().end());
      return true;
    }
    if (e.kind != ExprKind::kText || e.text.empty()) return false;
    const Utf8Char c = decode_utf8(e.text.data(), e.text.data() + e.text.size());
    if (static_cast<std::size_t>(c.size) != e.text.size()) return false;
    ranges.push_back({c.code, c.code});
    return true;
  };
  std::erase_if(parts, is_character);
  if (!ranges.empty()) parts.push_back(chars(CharSet(std::move(ranges))));
  return parts;
}

ExprId RuleSet::choice(std::vector<ExprId> parts) {
  std::vector<ExprId> flat;
  bool has_empty = false;
  const auto keep = [&](ExprId id) {
    const Expr& part = expr(id);
    if (part.kind == ExprKind::kNever) return;
    if (part.kind == ExprKind::kText && part.text.empty()) {
      if (has_empty) return;
      has_empty = true;
    }
    flat.push_back(id);
  };
  for (const ExprId id : parts) {
    if (expr(id).kind == ExprKind::kChoice) {
      for (const ExprId inner : std::vector<ExprId>(expr(id).parts)) keep(inner);
    } else {
      keep(id);
    }
  }
  if (flat.size() > 1) flat = with_characters_joined(std::move(flat));
  if (flat.empty()) return never();
  if (flat.size() == 1) return flat[0];
  return add({.kind = ExprKind::kChoice, .parts = std::move(flat)});
}

bool RuleSet::may_be_empty(ExprId id) const {
  const Expr& e = expr(id);
  const auto empty = [&](ExprId part) { return may_be_empty(part); };
  switch (e.kind) {
    case ExprKind::kText:
      return e.text.empty();
    case ExprKind::kSequence:
      return std::ranges::all_of(e.parts, empty);
    case ExprKind::kChoice:
      return std::ranges::any_of(e.parts, empty);
    case ExprKind::kRepeat:
      return e.min == 0 || empty(e.parts[0]);
    default:
      return false;
  }
}

// The same texts but the empty one.
ExprId RuleSet::not_empty(ExprId id) {
  if (!may_be_empty(id)) return id;
  const Expr e = expr(id);
  switch (e.kind) {
    case ExprKind::kSequence: {
      const ExprId first = e.parts[0];
      const ExprId rest = sequence({e.parts.begin() + 1, e.parts.end()});
      return choice({sequence({not_empty(first), rest}), not_empty(rest)});
    }
    case ExprKind::kChoice: {
      std::vector<ExprId> parts;
      for (const ExprId part : e.parts) parts.push_back(not_empty(part));
      return choice(std::move(parts));
    }
    case ExprKind::kRepeat:
      return repeat(not_empty(e.parts[0]), 1, e.max);
    default:
      return never();
  }
}

ExprId RuleSet::repeat(ExprId part, int min, int max) {
  if (max == 0) return text("");
  if (may_be_empty(part)) {
    part = not_empty(part);
    min = 0;
  }
  if (is_never(part)) return min == 0 ? text("") : part;
  if (min == 1 && max == 1) return part;
  if (min == 0 && max == 1) return optional(part);
  return add({.kind = ExprKind::kRepeat, .min = min, .max = max, .parts = {part}});
}

namespace {

// Length of the common beginning of all texts, at a character's border. `texts` is sorted.
std::size_t common_prefix(std::span<const std::string> texts, std::size_t from) {
  const std::string& a = texts.front();
  const std::string& b = texts.back();
  std::size_t end = from;
  while (end < a.size() && end < b.size() && a[end] == b[end]) ++end;
  while (end > from && end < b.size() && (static_cast<unsigned char>(b[end]) & 0xc0) == 0x80) --end;
  return end;
}

// Matches what follows the first `from` bytes, which all texts share. `texts` is sorted, unique.
ExprId radix(RuleSet& rules, std::span<const std::string> texts, std::size_t from) {
  if (texts.size() == 1) return rules.text(std::string_view(texts[0]).substr(from));
  std::vector<ExprId> choices;
  std::size_t begin = 0;
  if (texts[0].size() == from) {
    choices.push_back(rules.text(""));
    begin = 1;
  }
  while (begin < texts.size()) {
    const char* at = texts[begin].data() + from;
    const auto size =
        static_cast<std::size_t>(decode_utf8(at, texts[begin].data() + texts[begin].size()).size);
    const auto same = std::string_view(at, size);
    std::size_t end = begin + 1;
    while (end < texts.size() && std::string_view(texts[end]).substr(from, size) == same) ++end;
    const auto group = texts.subspan(begin, end - begin);
    const std::size_t split = common_prefix(group, from);
    const auto shared = std::string_view(group[0]).substr(from, split - from);
    choices.push_back(group.size() == 1
                          ? rules.text(std::string_view(group[0]).substr(from))
                          : rules.sequence({rules.text(shared), radix(rules, group, split)}));
    begin = end;
  }
  return rules.choice(std::move(choices));
}

}  // namespace

ExprId RuleSet::any_of(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  if (texts.empty()) return never();
  return radix(*this, texts, 0);
}

int RuleSet::new_rule() {
  bodies_.push_back(never());
  return static_cast<int>(bodies_.size() - 1);
}

bool RuleSet::is_productive(ExprId id, const std::vector<bool>& rules) const {
  const Expr& e = expr(id);
  const auto good = [&](ExprId part) { return is_productive(part, rules); };
  switch (e.kind) {
    case ExprKind::kNever:
      return false;
    case ExprKind::kText:
    case ExprKind::kChars:
      return true;
    case ExprKind::kSequence:
      return std::ranges::all_of(e.parts, good);
    case ExprKind::kChoice:
      return std::ranges::any_of(e.parts, good);
    case ExprKind::kRepeat:
      return e.min == 0 || good(e.parts[0]);
    case ExprKind::kRule:
      return rules[static_cast<std::size_t>(e.min)];
  }
  return false;
}

std::vector<bool> RuleSet::productive() const {
  std::vector<bool> known(bodies_.size(), false);
  // In turns backwards and forwards, since chains of rules run either way.
  bool backwards = true;
  for (bool changed = true; changed; backwards = !backwards) {
    changed = false;
    deadline_.check();
    for (std::size_t k = 0; k < bodies_.size(); ++k) {
      const std::size_t i = backwards ? bodies_.size() - 1 - k : k;
      if (known[i] || !is_productive(bodies_[i], known)) continue;
      known[i] = true;
      changed = true;
    }
  }
  return known;
}

}  // namespace ingot::grammar
