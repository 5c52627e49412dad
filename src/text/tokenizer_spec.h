#pragma once

#include "base/json.h"
#include "text/image.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct AddedTokenSpec {
  std::string content;
  std::int32_t id = -1;
  bool special = false;
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalised text
  bool as_spelled = false;  // without being normalised itself
};

// What every importer fills, from which the image is built. The parts of the pipeline are told in
// the language of tokenizer.json; a Precompiled normalizer takes its map from `charsmap`.
struct TokenizerSpec {
  TokenizerSpec();
  ~TokenizerSpec();

  std::vector<std::string> tokens;    // by id
  std::vector<std::uint8_t> flags;    // by id: TokenFlag
  std::vector<double> scores;         // Unigram: by id
  std::vector<MergeSlot> merges;      // BPE
  std::vector<AddedTokenSpec> added;  // ids are those of `tokens`
  std::string charsmap;

  // Behind pointers, so that this header needs no more than the name of Json.
  std::unique_ptr<Json> model, normalizer, pre_tokenizer, decoder;

  std::vector<std::int32_t> prefix, suffix;  // around every text with add_special
  std::vector<std::int32_t> ends;            // end-of-generation ids
  std::optional<std::int32_t> bos, eos, pad, unk;
  bool clean_up = false;

  // Puts a token at `id`; ids are bounded by `limit` so that a hostile file cannot ask for much.
  void put(std::int64_t id, std::string text, std::uint8_t flags, std::size_t limit);
};

// The image; throws Error{kBadInput} for what cannot be.
std::vector<std::byte> compile_tokenizer(const TokenizerSpec& spec);

// Every way in which a spelling is two others, as merges ranked by descending score; equal scores
// have equal ranks, so that the leftmost pair joins first (SentencePiece's BPE).
std::vector<MergeSlot> merges_by_score(const std::vector<std::string>& tokens,
                                       const std::vector<std::uint8_t>& flags,
                                       const std::vector<double>& scores);

// tokenizer_config.json: special tokens, add_bos_token, clean_up_tokenization_spaces and
// added_tokens_decoder.
void apply_tokenizer_config(std::string_view config_json, TokenizerSpec& spec);

// The id of a token of the specification by its text.
std::optional<std::int32_t> find_token(const TokenizerSpec& spec, std::string_view text);

}  // namespace ingot
