#include "text/pieces.h"

#include "base/error.h"
#include "text/utf8.h"

#include <nlohmann/json.hpp>

namespace ingot {
namespace {

void add_match(std::vector<Segment>& out, std::size_t& previous, Span match) {
  if (match.begin > previous) out.push_back({position(previous), position(match.begin), false});
  out.push_back({position(match.begin), position(match.end), true});
  previous = match.end;
}

}  // namespace

void check_piece_text(std::size_t bytes) {
  if (bytes > kMaxPieceText)
    fail(ErrorCode::kRequest, "[tokenizer.encode] a text of {} bytes after normalisation, limit {}",
         bytes, kMaxPieceText);
}

SplitBehavior split_behavior(std::string_view name) {
  if (name == "Isolated" || name == "isolated") return SplitBehavior::kIsolated;
  if (name == "Removed" || name == "removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious" || name == "merged_with_previous")
    return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext" || name == "merged_with_next") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous" || name == "contiguous") return SplitBehavior::kContiguous;
  fail(ErrorCode::kBadInput, "[tokenizer.split] behavior {:?} is not supported", name);
}

Pattern Pattern::from_json(const Json& json, std::string_view where) {
  if (json.is_string()) return literal(json.get<std::string>());
  if (json.is_object() && json.size() == 1 && json.begin()->is_string()) {
    const auto& text = json.begin()->get_ref<const std::string&>();
    if (json.begin().key() == "String") return literal(text);
    if (json.begin().key() == "Regex") return regex(text);
  }
  fail(ErrorCode::kBadInput, "[tokenizer.{}] pattern is neither a String nor a Regex", where);
}

Pattern Pattern::literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

Pattern Pattern::regex(std::string_view text) {
  Pattern pattern;
  pattern.scanner_ = scanner_of(text);
  if (pattern.scanner_ == nullptr) pattern.regex_.emplace(text);
  return pattern;
}

void Pattern::segments(std::string_view text, RegexScratch& scratch,
                       std::vector<Segment>& out) const {
  std::size_t previous = 0;
  if (scanner_ != nullptr) {
    const char* end = text.data() + text.size();
    for (const char* p = text.data(); p < end;) {
      const char* q = scanner_(p, end);
      out.push_back({static_cast<std::uint32_t>(p - text.data()),
                     static_cast<std::uint32_t>(q - text.data()), true});
      p = q;
    }
    return;
  }
  if (!regex_) {
    for (std::size_t at = 0; !literal_.empty();) {
      at = text.find(literal_, at);
      if (at == std::string_view::npos) break;
      add_match(out, previous, {at, at + literal_.size()});
      at += literal_.size();
    }
  } else {
    // As Oniguruma's iterator: an empty match right behind the last match is passed over.
    std::size_t at = 0;
    std::optional<std::size_t> last_end;
    while (at <= text.size()) {
      const auto match = regex_->find(text, at, scratch);
      if (!match) break;
      if (match->begin == match->end && last_end == match->end) {
        at += at < text.size() ? static_cast<std::size_t>(
                                     decode_utf8(text.data() + at, text.data() + text.size()).size)
                               : 1;
        continue;
      }
      add_match(out, previous, *match);
      last_end = at = match->end;
    }
  }
  if (previous < text.size()) out.push_back({position(previous), position(text.size()), false});
}

void join_segments(const std::vector<Segment>& segments, SplitBehavior behavior, const Piece& piece,
                   std::vector<Piece>& out) {
  const std::size_t start = out.size();
  const auto add = [&](const Segment& s) {
    out.push_back({piece.begin + s.begin, piece.begin + s.end, piece.first && s.begin == 0});
  };
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Segment& s : segments)
        if (s.begin < s.end) add(s);
      return;
    case SplitBehavior::kRemoved:
      for (const Segment& s : segments)
        if (!s.match && s.begin < s.end) add(s);
      return;
    case SplitBehavior::kContiguous:
      for (const Segment& s : segments) {
        if (s.match == previous && out.size() > start)
          out.back().end = piece.begin + s.end;
        else
          add(s);
        previous = s.match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const Segment& s : segments) {
        if (s.match && !previous && out.size() > start)
          out.back().end = piece.begin + s.end;
        else
          add(s);
        previous = s.match;
      }
      break;
    case SplitBehavior::kMergedWithNext: {
      // A match joins what follows, unless what follows is a match itself.
      for (std::size_t i = 0; i < segments.size(); ++i) {
        Segment s = segments[i];
        if (s.match && i + 1 < segments.size() && !segments[i + 1].match) s.end = segments[++i].end;
        add(s);
      }
      break;
    }
  }
  std::erase_if(out, [](const Piece& p) { return p.begin == p.end; });
}

}  // namespace ingot
