#include "text/pre_tokenizer.h"

#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <functional>

namespace ingot {
namespace {

// Rewrites every piece: f(text of the piece, piece, out) appends its new text.
template <typename F>
void rewrite(Pieces& pieces, Pieces& next, F&& f) {
  next.text.clear();
  next.list.clear();
  next.text.reserve(pieces.text.size() + pieces.list.size());
  for (const Piece& piece : pieces.list) {
    const std::size_t begin = next.text.size();
    f(pieces.at(piece), piece, next.text);
    check_piece_text(next.text.size());
    if (next.text.size() > begin)
      next.list.push_back({position(begin), position(next.text.size()), piece.first});
  }
  std::swap(pieces, next);
}

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(Pieces& pieces, SplitScratch& scratch) const override {
    auto& out = scratch.next.list;
    out.clear();
    out.reserve(pieces.text.size() / 4 + pieces.list.size());
    const bool scan =
        pattern_.scanner() != nullptr && !invert_ && (behavior_ == SplitBehavior::kIsolated);
    for (const Piece& piece : pieces.list) {
      if (scan) {
        cut(pieces, piece, out);
        continue;
      }
      scratch.segments.clear();
      pattern_.segments(pieces.at(piece), scratch.regex, scratch.segments);
      if (invert_)
        for (Segment& s : scratch.segments) s.match = !s.match;
      join_segments(scratch.segments, behavior_, piece, out);
    }
    std::swap(pieces.list, out);
  }

 private:
  // A scanner matches everywhere: its matches are the pieces.
  void cut(const Pieces& pieces, const Piece& piece, std::vector<Piece>& out) const {
    const char* text = pieces.text.data();
    const char* end = text + piece.end;
    for (const char* p = text + piece.begin; p < end;) {
      const char* q = pattern_.scanner()(p, end);
      const auto begin = static_cast<std::uint32_t>(p - text);
      out.push_back(
          {begin, static_cast<std::uint32_t>(q - text), piece.first && begin == piece.begin});
      p = q;
    }
  }

  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits by a property of characters; each character that has it is a match of its own.
class CharSplit : public PreTokenizer {
 public:
  using Predicate = std::function<bool(char32_t)>;
  CharSplit(Predicate predicate, SplitBehavior behavior)
      : predicate_(std::move(predicate)), behavior_(behavior) {}

  void apply(Pieces& pieces, SplitScratch& scratch) const override {
    auto& out = scratch.next.list;
    out.clear();
    for (const Piece& piece : pieces.list) {
      scratch.segments.clear();
      cut(pieces.at(piece), scratch.segments);
      join_segments(scratch.segments, behavior_, piece, out);
    }
    std::swap(pieces.list, out);
  }

 private:
  void cut(std::string_view text, std::vector<Segment>& segments) const {
    const char* p = text.data();
    const char* end = p + text.size();
    while (p < end) {
      const auto begin = static_cast<std::uint32_t>(p - text.data());
      const bool match = predicate_(next_code(p, end));
      const auto stop = static_cast<std::uint32_t>(p - text.data());
      if (!match && !segments.empty() && !segments.back().match)
        segments.back().end = stop;
      else
        segments.push_back({begin, stop, match});
    }
  }

  Predicate predicate_;
  SplitBehavior behavior_;
};

// \w+|[^\w\s]+ ; the rest is dropped.
class Whitespace : public PreTokenizer {
 public:
  void apply(Pieces& pieces, SplitScratch& scratch) const override {
    auto& out = scratch.next.list;
    out.clear();
    for (const Piece& piece : pieces.list) {
      const std::string_view text = pieces.at(piece);
      const char* p = text.data();
      const char* end = p + text.size();
      int last_kind = 0;
      while (p < end) {
        const auto begin = piece.begin + static_cast<std::uint32_t>(p - text.data());
        const char32_t c = next_code(p, end);
        const auto stop = piece.begin + static_cast<std::uint32_t>(p - text.data());
        const int kind = is_word_char(c) ? 1 : is_space(c) ? 0 : 2;
        if (kind != 0 && kind == last_kind)
          out.back().end = stop;
        else if (kind != 0)
          out.push_back({begin, stop, piece.first && begin == piece.begin});
        last_kind = kind;
      }
    }
    std::swap(pieces.list, out);
  }
};

// A piece begins where the script changes; characters before the first that has one are dropped.
class UnicodeScripts : public PreTokenizer {
 public:
  void apply(Pieces& pieces, SplitScratch& scratch) const override {
    auto& out = scratch.next.list;
    out.clear();
    for (const Piece& piece : pieces.list) {
      const char* begin = pieces.text.data() + piece.begin;
      const char* end = pieces.text.data() + piece.end;
      int last = 0;
      for (const char* p = begin; p < end;) {
        const auto at = piece.begin + static_cast<std::uint32_t>(p - begin);
        const int script = script_of(next_code(p, end));
        const auto stop = piece.begin + static_cast<std::uint32_t>(p - begin);
        if (script != 0 && script != last)
          out.push_back({at, stop, piece.first && at == piece.begin});
        else if (last != 0)
          out.back().end = stop;
        if (script != 0) last = script;
      }
    }
    std::swap(pieces.list, out);
  }
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t length) : length_(length) {}
  void apply(Pieces& pieces, SplitScratch& scratch) const override {
    auto& out = scratch.next.list;
    out.clear();
    for (const Piece& piece : pieces.list) {
      const char* begin = pieces.text.data() + piece.begin;
      const char* end = pieces.text.data() + piece.end;
      std::size_t count = 0;
      std::uint32_t start = piece.begin;
      for (const char* p = begin; p < end;) {
        p += decode_utf8(p, end).size;
        const auto at = piece.begin + static_cast<std::uint32_t>(p - begin);
        if (++count == length_ || p == end) {
          out.push_back({start, at, piece.first && start == piece.begin});
          start = at;
          count = 0;
        }
      }
    }
    std::swap(pieces.list, out);
  }

 private:
  std::size_t length_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void apply(Pieces& pieces, SplitScratch& scratch) const override {
    rewrite(pieces, scratch.next, [](std::string_view text, const Piece&, std::string& out) {
      if (!text.starts_with(' ')) out += ' ';
      out += text;
    });
  }
};

class ByteLevelMap : public PreTokenizer {
 public:
  void apply(Pieces& pieces, SplitScratch& scratch) const override {
    rewrite(pieces, scratch.next, [](std::string_view text, const Piece&, std::string& out) {
      append_byte_level(out, text);
    });
  }
};

class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };
  explicit Metaspace(const Json& json) : replacement_(string_field(json, "replacement", "▁")) {
    const bool prefix = bool_field(json, "add_prefix_space", true);
    const std::string scheme = string_field(json, "prepend_scheme", prefix ? "always" : "never");
    if (scheme == "always") {
      prepend_ = Prepend::kAlways;
    } else if (scheme == "first") {
      prepend_ = Prepend::kFirst;
    } else if (scheme == "never") {
      prepend_ = Prepend::kNever;
    } else {
      fail(ErrorCode::kBadInput, "[tokenizer.metaspace] prepend_scheme {:?} is not supported",
           scheme);
    }
    if (!prefix && prepend_ != Prepend::kNever)
      fail(ErrorCode::kBadInput, "[tokenizer.metaspace] add_prefix_space does not fit the scheme");
    split_ = bool_field(json, "split", true);
    if (replacement_.empty() ||
        decode_utf8(replacement_.data(), replacement_.data() + replacement_.size()).size !=
            static_cast<int>(replacement_.size()))
      fail(ErrorCode::kBadInput, "[tokenizer.metaspace] replacement is not one character");
  }

  void apply(Pieces& pieces, SplitScratch& scratch) const override {
    rewrite(pieces, scratch.next, [&](std::string_view text, const Piece& piece, std::string& out) {
      const bool has = text.starts_with(' ') || text.starts_with(replacement_);
      if (!has && (prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && piece.first)))
        out += replacement_;
      for (const char c : text) {
        if (c == ' ')
          out += replacement_;
        else
          out += c;
      }
    });
    if (!split_) return;
    auto& out = scratch.next.list;
    out.clear();
    for (const Piece& piece : pieces.list) cut(pieces.at(piece), piece, out);
    std::swap(pieces.list, out);
  }

 private:
  // A mark joins the text behind it; of several marks in a row all but the last stand alone.
  void cut(std::string_view text, const Piece& piece, std::vector<Piece>& out) const {
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t mark =
          text.substr(begin).starts_with(replacement_) ? replacement_.size() : 0;
      const std::size_t next = std::min(text.find(replacement_, begin + mark), text.size());
      out.push_back(
          {piece.begin + position(begin), piece.begin + position(next), piece.first && begin == 0});
      begin = next;
    }
  }

  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

using Stages = std::vector<std::unique_ptr<PreTokenizer>>;

void add_byte_level(const Json& json, Stages& stages) {
  if (bool_field(json, "add_prefix_space", true)) stages.push_back(std::make_unique<PrefixSpace>());
  if (bool_field(json, "use_regex", true))
    stages.push_back(
        std::make_unique<Split>(Pattern::regex(kGpt2Pattern), SplitBehavior::kIsolated, false));
  stages.push_back(std::make_unique<ByteLevelMap>());
}

void add_split(const Json& json, Stages& stages) {
  const Json* pattern = find_field(json, "pattern");
  if (pattern == nullptr) bad_field("pattern", "a String or a Regex");
  stages.push_back(std::make_unique<Split>(Pattern::from_json(*pattern, "pre_tokenizer"),
                                           split_behavior(string_field(json, "behavior")),
                                           bool_field(json, "invert", false)));
}

void add_delimiter(const Json& json, Stages& stages) {
  const std::string text = string_field(json, "delimiter");
  if (text.empty()) bad_field("delimiter", "a character");
  const char32_t wanted = decode_utf8(text.data(), text.data() + text.size()).code;
  stages.push_back(std::make_unique<CharSplit>([wanted](char32_t c) { return c == wanted; },
                                               SplitBehavior::kRemoved));
}

void add_stages(const Json& json, Stages& stages) {
  const std::string type = string_field(json, "type");
  const auto by_char = [&](bool (*predicate)(char32_t), SplitBehavior behavior) {
    stages.push_back(std::make_unique<CharSplit>(predicate, behavior));
  };
  if (type == "Sequence") {
    for (const Json& part : array_field(json, "pretokenizers")) add_stages(part, stages);
  } else if (type == "ByteLevel") {
    add_byte_level(json, stages);
  } else if (type == "Split") {
    add_split(json, stages);
  } else if (type == "Metaspace") {
    stages.push_back(std::make_unique<Metaspace>(json));
  } else if (type == "Whitespace") {
    stages.push_back(std::make_unique<Whitespace>());
  } else if (type == "WhitespaceSplit") {
    by_char(is_space, SplitBehavior::kRemoved);
  } else if (type == "Punctuation") {
    by_char(is_bert_punctuation, split_behavior(string_field(json, "behavior", "Isolated")));
  } else if (type == "Digits") {
    by_char([](char32_t c) { return is_in(c, kNumber); },
            bool_field(json, "individual_digits", false) ? SplitBehavior::kIsolated
                                                         : SplitBehavior::kContiguous);
  } else if (type == "BertPreTokenizer") {
    by_char(is_space, SplitBehavior::kRemoved);
    by_char(is_bert_punctuation, SplitBehavior::kIsolated);
  } else if (type == "CharDelimiterSplit") {
    add_delimiter(json, stages);
  } else if (type == "UnicodeScripts") {
    stages.push_back(std::make_unique<UnicodeScripts>());
  } else if (type == "FixedLength") {
    const std::int64_t length = int_field(json, "length", 5);
    if (length < 1) bad_field("length", "at least 1");
    stages.push_back(std::make_unique<FixedLength>(static_cast<std::size_t>(length)));
  } else {
    unknown_type("pre_tokenizer", type);
  }
}

}  // namespace

PreTokenizerChain make_pre_tokenizer(const Json& json, bool keep_bytes) {
  PreTokenizerChain chain;
  if (json.is_null()) return chain;
  add_stages(json, chain.stages);
  if (keep_bytes && !chain.stages.empty() &&
      dynamic_cast<const ByteLevelMap*>(chain.stages.back().get()) != nullptr) {
    chain.stages.pop_back();
    chain.byte_level_last = true;
  }
  return chain;
}

}  // namespace ingot
