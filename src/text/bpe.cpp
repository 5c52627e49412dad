#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/merge_table.h"
#include "text/model.h"
#include "text/utf8.h"

#include <algorithm>
#include <array>

namespace ingot {
namespace {

constexpr std::uint32_t kNoRank = 0xffffffffu;
// Up to here a scan for the lowest rank beats a heap.
constexpr std::size_t kShort = 48;

class Bpe : public Model {
 public:
  Bpe(const Json& json, const ImageView& image, const Vocabulary& vocab, bool byte_level)
      : vocab_(vocab),
        merges_(image.array<MergeSlot>(Section::kMerges), vocab.size()),
        prefix_(string_field(json, "continuing_subword_prefix")),
        suffix_(string_field(json, "end_of_word_suffix")),
        cut_mark_(string_field(json, "cut_mark")),
        byte_fallback_(bool_field(json, "byte_fallback", false)),
        fuse_unk_(bool_field(json, "fuse_unk", false)),
        ignore_merges_(bool_field(json, "ignore_merges", false)) {
    if (const Json* unk = find_field(json, "unk_token"))
      if (unk->is_string()) unk_ = vocab.find(unk->get_ref<const std::string&>());
    has_unk_ = find_field(json, "unk_token") != nullptr;
    const Json* dropout = find_field(json, "dropout");
    if (dropout != nullptr && (!dropout->is_number() || dropout->get<double>() != 0.0))
      fail(ErrorCode::kBadInput,
           "[tokenizer.bpe] dropout is not supported: encoding would be random");
    plain_ = prefix_.empty() && suffix_.empty();
    for (int c = 0; c < 128; ++c) {
      const char byte = static_cast<char>(c);
      ascii_ids_[static_cast<std::size_t>(c)] = vocab.find_in_model({&byte, 1});
    }
    if (byte_level && prefix_.empty() && suffix_.empty()) {
      takes_bytes_ = true;
      for (int b = 0; b < 256; ++b) {
        const char byte = static_cast<char>(b);
        const std::int32_t id = vocab.find_in_model(to_byte_level({&byte, 1}));
        byte_ids_[static_cast<std::size_t>(b)] = id;
        takes_bytes_ &= id >= 0;
      }
    }
  }

  bool takes_bytes() const override { return takes_bytes_; }
  std::string_view cut_mark() const override { return cut_mark_; }

  void tokenize(std::string_view piece, ModelScratch& scratch,
                std::vector<std::int32_t>& out) const override {
    if (piece.empty()) return;
    if (ignore_merges_ && append_whole(piece, scratch, out)) return;
    scratch.ids.clear();
    if (takes_bytes_)
      for (const char c : piece) scratch.ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    else
      append_chars(piece, scratch.text, scratch.ids);
    if (scratch.ids.size() <= kShort)
      merge_short(scratch);
    else
      merge_long(scratch);
    out.insert(out.end(), scratch.ids.begin(), scratch.ids.end());
  }

 private:
  bool append_whole(std::string_view piece, ModelScratch& scratch,
                    std::vector<std::int32_t>& out) const {
    std::int32_t id;
    if (takes_bytes_) {
      if (piece.size() > 1024) return false;  // longer than any token
      scratch.text.clear();
      append_byte_level(scratch.text, piece);
      id = vocab_.find_in_model(scratch.text);
    } else {
      id = vocab_.find_in_model(piece);
    }
    if (id < 0) return false;
    out.push_back(id);
    return true;
  }

  void append_chars(std::string_view piece, std::string& spelling,
                    std::vector<std::int32_t>& ids) const {
    const char* begin = piece.data();
    const char* end = begin + piece.size();
    bool pending_unk = false;
    for (const char* p = begin; p < end;) {
      if (plain_ && !pending_unk && (*p & 0x80) == 0) {
        const std::int32_t id = ascii_ids_[static_cast<std::size_t>(*p)];
        if (id >= 0) {
          ids.push_back(id);
          ++p;
          continue;
        }
      }
      const auto size = static_cast<std::size_t>(decode_utf8(p, end).size);
      spelling.assign(p != begin ? prefix_ : std::string());
      spelling.append(p, size);
      p += size;
      if (p == end) spelling += suffix_;
      const std::int32_t id = vocab_.find_in_model(spelling);
      if (id >= 0) {
        if (pending_unk) ids.push_back(unk_);
        pending_unk = false;
        ids.push_back(id);
        continue;
      }
      // An unknown character in waiting stays behind the byte tokens, as in the library.
      if (byte_fallback_ && append_byte_tokens(spelling, vocab_, ids)) continue;
      if (!has_unk_) continue;
      if (unk_ < 0)
        fail(ErrorCode::kRequest, "[tokenizer.bpe] the unknown token is not in the vocabulary");
      if (pending_unk && !fuse_unk_) ids.push_back(unk_);
      pending_unk = true;
    }
    if (pending_unk) ids.push_back(unk_);
  }

  void rank_pair(ModelScratch& s, std::size_t i) const {
    const MergeSlot* merge = i + 1 < s.ids.size() ? merges_.find(s.ids[i], s.ids[i + 1]) : nullptr;
    s.ranks[i] = merge != nullptr ? merge->rank : kNoRank;
    s.joined[i] = merge != nullptr ? static_cast<std::int32_t>(merge->id) : -1;
  }

  void merge_short(ModelScratch& s) const {
    s.ranks.resize(s.ids.size());
    s.joined.resize(s.ids.size());
    for (std::size_t i = 0; i < s.ids.size(); ++i) rank_pair(s, i);
    while (s.ids.size() > 1) {
      const auto best = std::min_element(s.ranks.begin(), s.ranks.end());
      if (*best == kNoRank) break;
      const auto i = best - s.ranks.begin();
      const auto at = static_cast<std::size_t>(i);
      s.ids[at] = s.joined[at];
      s.ids.erase(s.ids.begin() + i + 1);
      s.ranks.erase(s.ranks.begin() + i + 1);
      s.joined.erase(s.joined.begin() + i + 1);
      rank_pair(s, at);
      if (at > 0) rank_pair(s, at - 1);
    }
  }

  static bool later(const ModelScratch::Candidate& a, const ModelScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  }

  void offer(ModelScratch& s, std::int32_t position) const {
    const auto& left = s.symbols[static_cast<std::size_t>(position)];
    if (left.next < 0) return;
    const std::int32_t right = s.symbols[static_cast<std::size_t>(left.next)].id;
    const MergeSlot* merge = merges_.find(left.id, right);
    if (merge == nullptr) return;
    s.heap.push_back({merge->rank, position, left.id, right, static_cast<std::int32_t>(merge->id)});
    std::push_heap(s.heap.begin(), s.heap.end(), later);
  }

  // Lowest rank first, then leftmost: a heap over a linked list, O(n log n).
  void merge_long(ModelScratch& s) const {
    const auto count = static_cast<std::int32_t>(s.ids.size());
    s.symbols.resize(s.ids.size());
    s.heap.clear();
    for (std::int32_t i = 0; i < count; ++i)
      s.symbols[static_cast<std::size_t>(i)] = {s.ids[static_cast<std::size_t>(i)], i - 1,
                                                i + 1 < count ? i + 1 : -1};
    for (std::int32_t i = 0; i < count; ++i) offer(s, i);
    while (!s.heap.empty()) {
      std::pop_heap(s.heap.begin(), s.heap.end(), later);
      const ModelScratch::Candidate best = s.heap.back();
      s.heap.pop_back();
      auto& left = s.symbols[static_cast<std::size_t>(best.position)];
      if (left.id != best.left || left.next < 0) continue;
      auto& right = s.symbols[static_cast<std::size_t>(left.next)];
      if (right.id != best.right) continue;
      left.id = best.joined;
      left.next = right.next;
      right.id = -1;
      if (left.next >= 0) s.symbols[static_cast<std::size_t>(left.next)].previous = best.position;
      offer(s, best.position);
      if (left.previous >= 0) offer(s, left.previous);
    }
    s.ids.clear();
    for (std::int32_t i = 0; i >= 0; i = s.symbols[static_cast<std::size_t>(i)].next)
      s.ids.push_back(s.symbols[static_cast<std::size_t>(i)].id);
  }

  const Vocabulary& vocab_;
  MergeTable merges_;
  std::string prefix_, suffix_, cut_mark_;
  bool byte_fallback_, fuse_unk_, ignore_merges_;
  bool takes_bytes_ = false;
  bool has_unk_ = false;
  std::int32_t unk_ = -1;
  std::array<std::int32_t, 256> byte_ids_{};
  std::array<std::int32_t, 128> ascii_ids_{};
  bool plain_ = false;  // no prefix, no suffix
};

}  // namespace

std::unique_ptr<Model> make_bpe(const Json& json, const ImageView& image, const Vocabulary& vocab,
                                bool byte_level) {
  return std::make_unique<Bpe>(json, image, vocab, byte_level);
}

std::vector<MergeSlot> place_merges(std::span<const MergeSlot> merges) {
  if (merges.empty()) return {};
  std::vector<MergeSlot> slots(merges.size() + merges.size() / 2 + 8, {0, 0, 0, kNoMerge});
  for (const MergeSlot& merge : merges) {
    std::size_t at = merge_slot(merge.left, merge.right, slots.size());
    while (slots[at].id != kNoMerge &&
           (slots[at].left != merge.left || slots[at].right != merge.right))
      at = at + 1 == slots.size() ? 0 : at + 1;
    slots[at] = merge;
  }
  return slots;
}

bool append_byte_tokens(std::string_view bytes, const Vocabulary& vocab,
                        std::vector<std::int32_t>& out) {
  const std::size_t start = out.size();
  for (const char c : bytes) {
    const std::int32_t id = vocab.find_in_vocab(byte_token_text(static_cast<std::uint8_t>(c)));
    if (id < 0) {
      out.resize(start);
      return false;
    }
    out.push_back(id);
  }
  return true;
}

}  // namespace ingot
