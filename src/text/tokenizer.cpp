#include "text/tokenizer.h"

#include "text/byte_level.h"
#include "text/detokenizer.h"
#include "text/tokenizer_runtime.h"
#include "text/utf8.h"

#include <algorithm>

namespace ingot {
namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 27;

// One encode() call.
class Encoder {
 public:
  Encoder(const TokenizerRuntime& runtime, bool parse_special, std::span<const PromptSpan> foreign)
      : runtime_(runtime),
        parse_special_(parse_special),
        foreign_(foreign),
        scratch_(runtime.take_scratch()) {}
  ~Encoder() { runtime_.give_scratch(std::move(scratch_)); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  void run(std::string_view text) {
    const auto token = [this](std::int32_t id) { ids.push_back(id); };
    runtime_.added.split(text, parse_special_, foreign_,
                         {token, [this](std::string_view part, std::size_t offset) {
                            normalize(part, offset == 0, is_foreign(offset, offset + part.size()));
                          }});
  }

  std::vector<std::int32_t> ids;

 private:
  bool is_foreign(std::size_t begin, std::size_t end) const {
    return std::any_of(foreign_.begin(), foreign_.end(),
                       [&](const PromptSpan& s) { return s.begin < end && begin < s.end; });
  }

  // Offsets of the request's text are lost in normalisation, so a part with any of it goes without.
  void normalize(std::string_view part, bool first, bool foreign) {
    NormalizedText normalized;
    if (runtime_.normalizer) {
      normalized = {std::string(part), first};
      runtime_.normalizer->apply(normalized, scratch_->split.regex);
      part = normalized.text;
      first = normalized.first;
    }
    const auto token = [this](std::int32_t id) { ids.push_back(id); };
    runtime_.normalized_added.split(part, parse_special_ && !foreign, {},
                                    {token, [&](std::string_view piece, std::size_t offset) {
                                       pre_tokenize(piece, first && offset == 0);
                                     }});
  }

  void pre_tokenize(std::string_view part, bool first) {
    check_piece_text(part.size());
    Pieces& pieces = scratch_->pieces;
    pieces.text.assign(part);
    pieces.list.assign(1, {0, position(part.size()), first});
    runtime_.pre_tokenizer.apply(pieces, scratch_->split);
    const std::string_view mark = runtime_.model->cut_mark();
    for (const Piece& piece : pieces.list) {
      if (mark.empty())
        tokenize(pieces.at(piece));
      else
        cut(pieces.at(piece), mark);
    }
  }

  void cut(std::string_view text, std::string_view mark) {
    std::size_t begin = 0;
    std::size_t last = 0;  // end of the last mark
    for (std::size_t at = text.find(mark); at != std::string_view::npos;
         at = text.find(mark, last)) {
      if (at > begin && at != last) {
        tokenize(text.substr(begin, at - begin));
        begin = at;
      }
      last = at + mark.size();
    }
    tokenize(text.substr(begin));
  }

  void tokenize(std::string_view piece) {
    const auto cached = scratch_->cache.find(piece);
    if (!cached.empty()) {
      ids.insert(ids.end(), cached.begin(), cached.end());
      return;
    }
    const std::size_t before = ids.size();
    runtime_.model->tokenize(piece, scratch_->model, ids);
    scratch_->cache.put(piece, {ids.data() + before, ids.size() - before});
  }

  const TokenizerRuntime& runtime_;
  bool parse_special_;
  std::span<const PromptSpan> foreign_;
  std::unique_ptr<EncodeScratch> scratch_;
};

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<TokenizerRuntime> runtime) : runtime_(std::move(runtime)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::open(std::span<const std::byte> image) {
  return Tokenizer(std::make_unique<TokenizerRuntime>(image));
}

Tokenizer Tokenizer::own(std::vector<std::byte> image) {
  return Tokenizer(std::make_unique<TokenizerRuntime>(std::move(image)));
}

std::string Tokenizer::serialize() const {
  const auto bytes = runtime_->image.all();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  if (text.size() > kMaxText)
    fail(ErrorCode::kRequest, "[tokenizer.encode] a text of {} bytes, limit {}", text.size(),
         kMaxText);
  std::string repaired;
  bool parse_special = options.parse_special;
  if (!is_utf8(text)) {
    repaired = lossy_utf8(text);
    text = repaired;
    if (!options.foreign.empty()) parse_special = false;  // the spans are of the text before
  }
  Encoder encoder(*runtime_, parse_special, options.foreign);
  encoder.ids.reserve(text.size() / 3 + 16);
  if (options.add_special) encoder.ids = runtime_->prefix;
  encoder.run(text);
  if (options.add_special)
    encoder.ids.insert(encoder.ids.end(), runtime_->suffix.begin(), runtime_->suffix.end());
  return std::move(encoder.ids);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids,
                              const DecodeOptions& options) const {
  DecoderChain chain = runtime_->new_decoder();
  for (const std::int32_t id : ids)
    if (runtime_->shows(id, options.skip_special)) chain.push(runtime_->text(id));
  chain.finish();
  return chain.take();
}

int Tokenizer::vocab_size() const {
  return runtime_->vocab.size();
}

std::string Tokenizer::token_text(std::int32_t id) const {
  return std::string(runtime_->text(id));
}

std::string Tokenizer::token_bytes(std::int32_t id) const {
  const std::string_view text = runtime_->text(id);
  const TokenBytesRule& rule = runtime_->bytes_rule;
  if ((runtime_->vocab.flags(id) & kSpecial) != 0) return std::string(text);
  if (rule.byte_level) return from_byte_level(text).value_or(std::string(text));
  if (rule.byte_fallback)
    if (const int byte = byte_token_value(text); byte >= 0) return {static_cast<char>(byte)};
  std::string bytes(text);
  if (rule.word_piece && !text.empty())
    bytes = text.starts_with(rule.prefix) ? bytes.substr(rule.prefix.size()) : " " + bytes;
  for (const auto& [what, with] : rule.replace)
    if (!what.empty()) bytes = replaced(std::move(bytes), what, with);
  return bytes;
}

bool Tokenizer::is_special(std::int32_t id) const {
  return (runtime_->vocab.flags(id) & kSpecial) != 0;
}

std::optional<std::int32_t> Tokenizer::token_id(std::string_view text) const {
  const std::int32_t id = runtime_->vocab.find(text);
  if (id < 0) return std::nullopt;
  return id;
}

std::optional<std::int32_t> Tokenizer::bos_id() const {
  return runtime_->bos;
}
std::optional<std::int32_t> Tokenizer::eos_id() const {
  return runtime_->eos;
}
std::optional<std::int32_t> Tokenizer::pad_id() const {
  return runtime_->pad;
}
std::optional<std::int32_t> Tokenizer::unk_id() const {
  return runtime_->unk;
}
std::span<const std::int32_t> Tokenizer::end_ids() const {
  return runtime_->ends;
}
std::span<const std::int32_t> Tokenizer::prefix_ids() const {
  return runtime_->prefix;
}
std::span<const std::int32_t> Tokenizer::suffix_ids() const {
  return runtime_->suffix;
}

TokenStream::TokenStream(const Tokenizer& tokenizer, const DecodeOptions& options)
    : tokenizer_(&tokenizer),
      options_(options),
      chain_(std::make_unique<DecoderChain>(tokenizer.runtime().new_decoder())) {}
TokenStream::TokenStream(TokenStream&&) noexcept = default;
TokenStream& TokenStream::operator=(TokenStream&&) noexcept = default;
TokenStream::~TokenStream() = default;

std::string TokenStream::push(std::int32_t id) {
  const TokenizerRuntime& runtime = tokenizer_->runtime();
  if (!runtime.shows(id, options_.skip_special)) return {};
  chain_->push(runtime.text(id));
  return chain_->take();
}

std::string TokenStream::finish() {
  chain_->finish();
  return chain_->take();
}

}  // namespace ingot
