#include "text/added_tokens.h"

#include "text/unicode.h"
#include "text/utf8.h"

#include <algorithm>

namespace ingot {
namespace {

bool word_before(std::string_view text) {
  if (text.empty()) return false;
  const char* end = text.data() + text.size();
  return is_word_char(decode_utf8(previous_start(text.data(), end), end).code);
}

bool word_after(std::string_view text) {
  return !text.empty() && is_word_char(decode_utf8(text.data(), text.data() + text.size()).code);
}

std::size_t blanks_at_end(std::string_view text) {
  const char* begin = text.data();
  const char* p = begin + text.size();
  while (p > begin) {
    const char* q = previous_start(begin, p);
    if (!is_space(decode_utf8(q, p).code)) break;
    p = q;
  }
  return text.size() - static_cast<std::size_t>(p - begin);
}

std::size_t blanks_at_start(std::string_view text) {
  const char* p = text.data();
  const char* end = p + text.size();
  while (p < end) {
    const Utf8Char c = decode_utf8(p, end);
    if (!is_space(c.code)) break;
    p += c.size;
  }
  return static_cast<std::size_t>(p - text.data());
}

bool overlaps(std::span<const PromptSpan> spans, std::size_t begin, std::size_t end) {
  const auto it = std::partition_point(spans.begin(), spans.end(),
                                       [&](const PromptSpan& s) { return s.end <= begin; });
  return it != spans.end() && it->begin < end;
}

}  // namespace

AddedTokens::AddedTokens(const ImageView& image, Section trie)
    : trie_(image.array<TrieNode>(trie)), records_(image.array<AddedRecord>(Section::kAdded)) {
  for (int b = 0; b < 256 && !trie_.empty(); ++b)
    starts_[static_cast<std::size_t>(b)] =
        trie_.step(0, static_cast<unsigned char>(b)) != Trie::kDead;
}

bool AddedTokens::find(std::string_view text, std::size_t from, Match& match) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!starts_[static_cast<unsigned char>(text[at])]) continue;
    std::uint32_t node = 0;
    bool found = false;
    for (std::size_t i = at; i < text.size(); ++i) {
      node = trie_.step(node, static_cast<unsigned char>(text[i]));
      if (node == Trie::kDead) break;
      const std::int32_t value = trie_.value(node);
      if (value < 0 || static_cast<std::size_t>(value) >= records_.size()) continue;
      match = {at, i + 1, records_[static_cast<std::size_t>(value)]};
      found = true;
    }
    if (found) return true;
  }
  return false;
}

void AddedTokens::split(std::string_view text, bool parse_special,
                        std::span<const PromptSpan> foreign, const Sink& sink) const {
  std::size_t done = 0;  // everything before it is out
  std::size_t from = 0;
  Match match;
  while (!empty() && find(text, from, match)) {
    from = match.end;
    const std::uint32_t flags = match.record.flags;
    if (!parse_special && (flags & kAddedSpecial) != 0) continue;
    if ((flags & kAddedSpecial) != 0 && overlaps(foreign, match.begin, match.end)) {
      from = match.begin + 1;  // a token of the template may begin inside
      continue;
    }
    if ((flags & kAddedSingleWord) != 0 &&
        (word_before(text.substr(0, match.begin)) || word_after(text.substr(match.end))))
      continue;
    std::size_t begin = match.begin;
    std::size_t end = match.end;
    if ((flags & kAddedLstrip) != 0 && begin > done)
      begin -= blanks_at_end(text.substr(done, begin - done));
    if ((flags & kAddedRstrip) != 0) end += blanks_at_start(text.substr(end));
    if (begin > done) sink.text(text.substr(done, begin - done), done);
    sink.token(match.record.id);
    done = end;
  }
  if (done < text.size()) sink.text(text.substr(done), done);
}

}  // namespace ingot
