#include "text/json_fields.h"
#include "text/model.h"
#include "text/trie.h"
#include "text/utf8.h"

#include <algorithm>

namespace ingot {
namespace {

// Viterbi over the pieces of a trie, with f64 scores as in the `tokenizers` library.
class Unigram : public Model {
 public:
  Unigram(const Json& json, const ImageView& image, const Vocabulary& vocab)
      : vocab_(vocab),
        trie_(image.array<TrieNode>(Section::kTrie)),
        scores_(image.array<double>(Section::kScores)),
        unk_(static_cast<std::int32_t>(int_field(json, "unk_id", -1))),
        cut_mark_(string_field(json, "cut_mark")),
        byte_fallback_(bool_field(json, "byte_fallback", false)) {
    const Json* least = find_field(json, "min_score");
    constexpr double kUnknownPenalty = 10.0;
    unk_score_ =
        (least != nullptr && least->is_number() ? least->get<double>() : 0.0) - kUnknownPenalty;
    if (scores_.size() != static_cast<std::size_t>(vocab.size()))
      fail(ErrorCode::kBadInput, "[tokenizer.image] {} scores for {} tokens", scores_.size(),
           vocab.size());
    if (unk_ >= vocab.size())
      fail(ErrorCode::kBadInput, "[tokenizer.unigram] unk_id {} is not in the vocabulary", unk_);
  }

  std::string_view cut_mark() const override { return cut_mark_; }

  void tokenize(std::string_view piece, ModelScratch& scratch,
                std::vector<std::int32_t>& out) const override {
    if (piece.empty()) return;
    search(piece, scratch.nodes);
    // Back from the end; unknown neighbours fuse.
    const std::size_t start = out.size();
    std::size_t unknown_end = 0;  // of the run of unknown pieces being collected; 0: none
    std::size_t end = piece.size();
    const auto flush = [&](std::size_t begin) {
      if (unknown_end != 0)
        append_reversed(piece.substr(begin, unknown_end - begin), scratch.ids, out);
      unknown_end = 0;
    };
    while (end > 0) {
      const ModelScratch::Node& node = scratch.nodes[end];
      if (node.id == unk_) {
        if (unknown_end == 0) unknown_end = end;
      } else {
        flush(end);
        out.push_back(node.id);
      }
      end = static_cast<std::size_t>(node.start);
    }
    flush(0);
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(start), out.end());
  }

 private:
  static void offer(ModelScratch::Node& node, double score, std::int32_t id, std::size_t start) {
    if (node.start >= 0 && score <= node.score) return;
    node = {score, id, static_cast<std::int32_t>(start)};
  }

  void search(std::string_view piece, std::vector<ModelScratch::Node>& nodes) const {
    nodes.assign(piece.size() + 1, {0.0, 0, -1});
    const char* end = piece.data() + piece.size();
    for (std::size_t at = 0; at < piece.size();) {
      const double before = nodes[at].score;
      const auto size = static_cast<std::size_t>(decode_utf8(piece.data() + at, end).size);
      bool single = false;
      std::uint32_t node = trie_.empty() ? Trie::kDead : 0;
      for (std::size_t i = at; i < piece.size() && node != Trie::kDead;) {
        node = trie_.step(node, static_cast<unsigned char>(piece[i++]));
        if (node == Trie::kDead) break;
        const std::int32_t id = trie_.value(node);
        if (id < 0 || id >= vocab_.size()) continue;
        offer(nodes[i], scores_[static_cast<std::size_t>(id)] + before, id, at);
        single |= i - at == size;
      }
      if (!single) {
        if (unk_ < 0)
          fail(ErrorCode::kRequest, "[tokenizer.unigram] an unknown character, and no unk_id");
        offer(nodes[at + size], unk_score_ + before, unk_, at);
      }
      at += size;
    }
  }

  void append_reversed(std::string_view text, std::vector<std::int32_t>& bytes,
                       std::vector<std::int32_t>& out) const {
    bytes.clear();
    const std::int32_t id = vocab_.find_in_model(text);
    if (id >= 0) {
      out.push_back(id);
    } else if (byte_fallback_ && append_byte_tokens(text, vocab_, bytes)) {
      out.insert(out.end(), bytes.rbegin(), bytes.rend());
    } else {
      out.push_back(unk_);
    }
  }

  const Vocabulary& vocab_;
  Trie trie_;
  std::span<const double> scores_;
  std::int32_t unk_;
  std::string cut_mark_;
  bool byte_fallback_;
  double unk_score_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_unigram(const Json& json, const ImageView& image,
                                    const Vocabulary& vocab) {
  return std::make_unique<Unigram>(json, image, vocab);
}

}  // namespace ingot
