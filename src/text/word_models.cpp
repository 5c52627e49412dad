#include "text/json_fields.h"
#include "text/model.h"
#include "text/utf8.h"

namespace ingot {
namespace {

std::int32_t unknown_of(const Json& json, const Vocabulary& vocab, std::string_view fallback) {
  return vocab.find(string_field(json, "unk_token", fallback));
}

std::int32_t need_unknown(std::int32_t id) {
  if (id < 0) fail(ErrorCode::kRequest, "[tokenizer] an unknown word, and no unknown token");
  return id;
}

// Longest match first.
class WordPiece : public Model {
 public:
  WordPiece(const Json& json, const Vocabulary& vocab)
      : vocab_(vocab),
        prefix_(string_field(json, "continuing_subword_prefix", "##")),
        unk_(unknown_of(json, vocab, "[UNK]")),
        most_(int_field(json, "max_input_chars_per_word", 100)) {
    if (most_ < 0 || most_ > 1000)  // the search is quadratic in it
      bad_field("max_input_chars_per_word", "0 to 1000");
  }

  void tokenize(std::string_view piece, ModelScratch& scratch,
                std::vector<std::int32_t>& out) const override {
    const char* text_end = piece.data() + piece.size();
    std::int64_t chars = 0;
    for (const char* p = piece.data(); p < text_end && chars <= most_; ++chars)
      p += decode_utf8(p, text_end).size;
    if (chars > most_) {
      out.push_back(need_unknown(unk_));
      return;
    }
    const std::size_t start = out.size();
    for (const char* begin = piece.data(); begin < text_end;) {
      const char* end = text_end;
      std::int32_t id = -1;
      while (begin < end) {
        scratch.text.assign(begin == piece.data() ? std::string() : prefix_);
        scratch.text.append(begin, end);
        id = vocab_.find_in_model(scratch.text);
        if (id >= 0) break;
        end = previous_start(begin, end);
      }
      if (id < 0) {
        out.resize(start);
        out.push_back(need_unknown(unk_));
        return;
      }
      out.push_back(id);
      begin = end;
    }
  }

 private:
  const Vocabulary& vocab_;
  std::string prefix_;
  std::int32_t unk_;
  std::int64_t most_;
};

class WordLevel : public Model {
 public:
  WordLevel(const Json& json, const Vocabulary& vocab)
      : vocab_(vocab), unk_(unknown_of(json, vocab, "<unk>")) {}

  void tokenize(std::string_view piece, ModelScratch&,
                std::vector<std::int32_t>& out) const override {
    const std::int32_t id = vocab_.find_in_model(piece);
    out.push_back(id >= 0 ? id : need_unknown(unk_));
  }

 private:
  const Vocabulary& vocab_;
  std::int32_t unk_;
};

}  // namespace

std::unique_ptr<Model> make_wordpiece(const Json& json, const Vocabulary& vocab) {
  return std::make_unique<WordPiece>(json, vocab);
}

std::unique_ptr<Model> make_wordlevel(const Json& json, const Vocabulary& vocab) {
  return std::make_unique<WordLevel>(json, vocab);
}

std::unique_ptr<Model> make_model(const Json& json, const ImageView& image, const Vocabulary& vocab,
                                  bool byte_level) {
  const std::string type = string_field(json, "type");
  if (type == "BPE") return make_bpe(json, image, vocab, byte_level);
  if (type == "Unigram") return make_unigram(json, image, vocab);
  if (type == "WordPiece") return make_wordpiece(json, vocab);
  if (type == "WordLevel") return make_wordlevel(json, vocab);
  unknown_type("model", type);
}

}  // namespace ingot
