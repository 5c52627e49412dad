#pragma once

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/image.h"
#include "text/model.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary.h"
#include "text/word_cache.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ingot {

// Memory of one encode() call, kept for the next; owned by one thread at a time.
struct EncodeScratch {
  SplitScratch split;
  ModelScratch model;
  Pieces pieces;
  WordCache cache;
};

// How one token becomes bytes in the middle of a text.
struct TokenBytesRule {
  bool byte_level = false;
  bool byte_fallback = false;
  bool word_piece = false;
  std::string prefix;                                        // of WordPiece
  std::vector<std::pair<std::string, std::string>> replace;  // literal, by
};

// The parts behind a Tokenizer. Not copied or moved: its parts point at each other.
struct TokenizerRuntime {
  explicit TokenizerRuntime(std::span<const std::byte> image);
  explicit TokenizerRuntime(std::vector<std::byte> image);
  TokenizerRuntime(const TokenizerRuntime&) = delete;
  TokenizerRuntime& operator=(const TokenizerRuntime&) = delete;

  DecoderChain new_decoder() const;
  std::unique_ptr<EncodeScratch> take_scratch() const;
  void give_scratch(std::unique_ptr<EncodeScratch> scratch) const;

  std::vector<std::byte> storage;  // of an owned image
  ImageView image;
  Vocabulary vocab;
  AddedTokens added, normalized_added;
  std::unique_ptr<Normalizer> normalizer;
  PreTokenizerChain pre_tokenizer;
  std::unique_ptr<Model> model;
  // What the id reads as: its spelling, or the normalised one of an added token.
  std::string_view text(std::int32_t id) const {
    if ((vocab.flags(id) & kRespelled) == 0) return vocab.text(id);
    const auto it = respelled.find(id);
    return it == respelled.end() ? std::string_view() : std::string_view(it->second);
  }

  // Whether decoding shows the id. The library knows special tokens by their text, hence not the
  // respelled ones.
  bool shows(std::int32_t id, bool skip_special) const {
    const std::uint8_t flags = vocab.flags(id);
    return (flags & kPresent) != 0 &&
           !(skip_special && (flags & (kSpecial | kRespelled)) == kSpecial);
  }

  std::unordered_map<std::int32_t, std::string> respelled;
  std::string decoder;  // JSON
  bool clean_up = false;
  TokenBytesRule bytes_rule;
  std::vector<std::int32_t> prefix, suffix, ends;
  std::optional<std::int32_t> bos, eos, pad, unk;

 private:
  void load();

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<EncodeScratch>> pool_;
};

}  // namespace ingot
