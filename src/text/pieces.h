#pragma once

#include "base/json.h"
#include "text/regex.h"
#include "text/scanners.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// A stretch of Pieces::text that is tokenized on its own.
struct Piece {
  std::uint32_t begin, end;
  bool first;  // it begins where the original text begins
};

// Positions fit 32 bits: no text grows beyond this.
inline constexpr std::size_t kMaxPieceText = std::size_t{1} << 30;
// Throws Error{kRequest}.
void check_piece_text(std::size_t bytes);

inline std::uint32_t position(std::size_t offset) {
  return static_cast<std::uint32_t>(offset);
}

struct Pieces {
  std::string text;
  std::vector<Piece> list;

  std::string_view at(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

// What a match does to the text around it (the `behavior` of Split).
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
SplitBehavior split_behavior(std::string_view name);

struct Segment {
  std::uint32_t begin, end;
  bool match;
};

// A literal string, a known pattern with its scanner, or a regular expression.
class Pattern {
 public:
  // {"String": text}, {"Regex": text} or a plain string.
  static Pattern from_json(const Json& json, std::string_view where);
  static Pattern literal(std::string text);
  static Pattern regex(std::string_view pattern);

  // Cuts `text` into matches and the gaps between them; every segment but empty matches covers
  // something. Appends to `out`.
  void segments(std::string_view text, RegexScratch& scratch, std::vector<Segment>& out) const;
  Scanner scanner() const { return scanner_; }
  bool is_literal() const { return scanner_ == nullptr && !regex_; }
  const std::string& text() const { return literal_; }

 private:
  Scanner scanner_ = nullptr;
  std::optional<Regex> regex_;
  std::string literal_;
};

// Appends what `behavior` makes of `segments` (positions relative to piece.begin) to `out`, without
// empty pieces.
void join_segments(const std::vector<Segment>& segments, SplitBehavior behavior, const Piece& piece,
                   std::vector<Piece>& out);

}  // namespace ingot
