#pragma once

#include "text/prompt_span.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

struct EncodeOptions {
  bool add_special = true;  // what the post-processor adds: BOS, EOS, [CLS], [SEP]
  // Special (control) tokens written in the text become their ids. Off for text a user wrote: then
  // the text never yields a control id. Added tokens that are not special are matched either way.
  bool parse_special = true;
  // Sorted parts of the text that a user wrote (RenderedChat::from_request): no special token
  // matches where it overlaps one, so nobody can forge a control token. Special tokens that are
  // matched only after normalisation are then not matched at all in a stretch of text that holds
  // such a part.
  std::span<const PromptSpan> foreign = {};
};

struct DecodeOptions {
  bool skip_special = true;
};

struct TokenizerRuntime;  // tokenizer_runtime.h: the parts behind a Tokenizer

// Text to token ids and back, equal to the `tokenizers` library 0.23. A view of one flat image
// (serialize/open), so opening parses nothing token by token. Const members are thread-safe.
class Tokenizer {
 public:
  // Opens an image that outlives the Tokenizer (a mapped engine file). Throws Error{kBadInput} for
  // any image that serialize() did not write.
  static Tokenizer open(std::span<const std::byte> image);
  // Takes the image over.
  static Tokenizer own(std::vector<std::byte> image);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // The flat image: checksummed, position-independent, little-endian, to be kept 8-byte aligned.
  std::string serialize() const;

  // Bytes of `text` that are not UTF-8 count as U+FFFD.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Always valid UTF-8. Ids without a token give nothing.
  std::string decode(std::span<const std::int32_t> ids, const DecodeOptions& options = {}) const;

  // Largest id + 1, added tokens included.
  int vocab_size() const;
  // The vocabulary's spelling ("Ġhello", "▁hello", "<0x0A>"); empty for an id without a token.
  std::string token_text(std::int32_t id) const;
  // The bytes the token stands for in the middle of a text (" hello", "\n"); may be part of a UTF-8
  // character. What a grammar matches against.
  std::string token_bytes(std::int32_t id) const;
  bool is_special(std::int32_t id) const;
  std::optional<std::int32_t> token_id(std::string_view text) const;

  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;
  std::optional<std::int32_t> pad_id() const;
  std::optional<std::int32_t> unk_id() const;
  // Ids after which generation ends as far as the tokenizer knows: eos, end of turn. Sorted.
  std::span<const std::int32_t> end_ids() const;
  // What encode() with add_special puts before and after the text.
  std::span<const std::int32_t> prefix_ids() const;
  std::span<const std::int32_t> suffix_ids() const;

  const TokenizerRuntime& runtime() const { return *runtime_; }

 private:
  explicit Tokenizer(std::unique_ptr<TokenizerRuntime> runtime);
  std::unique_ptr<TokenizerRuntime> runtime_;
};

// Hugging Face: tokenizer.json, and tokenizer_config.json ("" if absent). A part of an unknown type
// is Error{kBadInput} that names it.
Tokenizer tokenizer_from_json(std::string_view tokenizer_json,
                              std::string_view tokenizer_config_json = {});

// What tokenizer.ggml.* of a GGUF file says. Filled by the reader of the file.
struct GgufVocab {
  std::string model;          // tokenizer.ggml.model: gpt2, llama, bert, t5, gemma4
  std::string pre_tokenizer;  // tokenizer.ggml.pre; "" if absent
  std::vector<std::string> tokens;
  std::vector<float> scores;              // empty, or one a token
  std::vector<std::int32_t> token_types;  // empty, or one a token: 1 normal .. 6 byte
  std::vector<std::string> merges;        // "left right"
  std::string precompiled_charsmap;       // raw bytes
  std::optional<std::int32_t> bos_id, eos_id, eot_id, eom_id, unk_id, pad_id, sep_id, cls_id,
      mask_id;
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces;
};
Tokenizer tokenizer_from_gguf(const GgufVocab& vocab);

// A SentencePiece model file (protobuf), BPE or Unigram. tokenizer_config.json ("" if absent) may
// declare added tokens, add_bos_token, add_eos_token.
Tokenizer tokenizer_from_sentencepiece(std::string_view model_bytes,
                                       std::string_view tokenizer_config_json = {});

// A tiktoken rank file (lines "base64 rank"), as in Meta's Llama 3 folders: the Llama 3 pattern and
// its 256 control tokens after the ranks.
Tokenizer tokenizer_from_tiktoken(std::string_view ranks);

// Whether a `tokenizer.model` is a tiktoken rank file rather than a SentencePiece protobuf.
bool is_tiktoken(std::string_view model_bytes);

}  // namespace ingot
