#pragma once

#include "base/json.h"
#include "text/image.h"
#include "text/vocabulary.h"

#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// Memory of a model during one call.
struct ModelScratch {
  struct Symbol {
    std::int32_t id;
    std::int32_t previous, next;  // indices; -1: none
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t position;     // of the left symbol
    std::int32_t left, right;  // ids when it was made
    std::int32_t joined;
  };
  struct Node {
    double score;
    std::int32_t id;
    std::int32_t start;  // of the token that ends here; -1: none
  };
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> ranks;
  std::vector<std::int32_t> joined;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
  std::vector<Node> nodes;
  std::string text;
};

// Turns one piece into ids.
class Model {
 public:
  virtual ~Model() = default;
  virtual void tokenize(std::string_view piece, ModelScratch& scratch,
                        std::vector<std::int32_t>& out) const = 0;
  // It takes raw bytes where the vocabulary has GPT-2's alphabet.
  virtual bool takes_bytes() const { return false; }
  // Pieces may be cut before this mark wherever something else stands before it, for no token
  // reaches across; "": they may not.
  virtual std::string_view cut_mark() const { return {}; }
};

// `json`: the model's options without its tables, which are in the image. Throws Error{kBadInput}.
// `byte_level`: the pieces are bytes in GPT-2's alphabet.
std::unique_ptr<Model> make_model(const Json& json, const ImageView& image, const Vocabulary& vocab,
                                  bool byte_level);

// One maker a file: bpe.cpp, unigram.cpp, word_models.cpp.
std::unique_ptr<Model> make_bpe(const Json& json, const ImageView& image, const Vocabulary& vocab,
                                bool byte_level);
std::unique_ptr<Model> make_unigram(const Json& json, const ImageView& image,
                                    const Vocabulary& vocab);
std::unique_ptr<Model> make_wordpiece(const Json& json, const Vocabulary& vocab);
std::unique_ptr<Model> make_wordlevel(const Json& json, const Vocabulary& vocab);

// Appends the tokens "<0xAB>" of the bytes if the model has all of them.
bool append_byte_tokens(std::string_view bytes, const Vocabulary& vocab,
                        std::vector<std::int32_t>& out);

}  // namespace ingot
