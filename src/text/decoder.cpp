#include "text/decoder.h"

#include "text/byte_level.h"
#include "text/decoder_stages.h"
#include "text/json_fields.h"
#include "text/pieces.h"
#include "text/utf8.h"

namespace ingot {
namespace {

using Stages = std::vector<std::unique_ptr<DecoderStage>>;

std::string replace_all(std::string text, std::string_view what, std::string_view with) {
  if (what.empty()) return text;
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
  return text;
}

// WordPiece's and CTC's cleanup, on each token.
std::string clean_token(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, with] : kRules) text = replace_all(std::move(text), what, with);
  return text;
}

// A stage that needs each token as a whole.
class TokenStage : public DecoderStage {
 public:
  void fragment(std::string_view text) final { token_ += text; }
  void end_token() final {
    on_token(token_);
    token_.clear();
  }
  void finish() override { next_->finish(); }

 protected:
  virtual void on_token(std::string& token) = 0;
  void emit(std::string_view token) {
    next_->fragment(token);
    next_->end_token();
  }

 private:
  std::string token_;
};

class ByteLevelDecoder : public TokenStage {
 public:
  void finish() override {
    std::string rest;
    lossy_.finish(rest);
    next_->fragment(rest);
    next_->end_token();
    next_->finish();
  }

 private:
  void on_token(std::string& token) override {
    bytes_.clear();
    if (!append_from_byte_level(bytes_, token)) bytes_ = token;
    text_.clear();
    lossy_.push(bytes_, text_);
    if (!text_.empty()) next_->fragment(text_);
  }
  LossyUtf8 lossy_;
  std::string bytes_, text_;  // kept for their memory
};

class ByteFallbackDecoder : public TokenStage {
 public:
  void finish() override {
    flush();
    next_->finish();
  }

 private:
  void on_token(std::string& token) override {
    const int byte = byte_token_value(token);
    if (byte >= 0) {
      bytes_.push_back(static_cast<char>(byte));
      return;
    }
    flush();
    emit(token);
  }
  // A run is text as a whole, or one U+FFFD a byte.
  void flush() {
    if (bytes_.empty()) return;
    if (is_utf8(bytes_))
      emit(bytes_);
    else
      for (std::size_t i = 0; i < bytes_.size(); ++i) emit("\xef\xbf\xbd");
    bytes_.clear();
  }
  std::string bytes_;
};

class FuseDecoder : public DecoderStage {
 public:
  void fragment(std::string_view text) override { next_->fragment(text); }
  void end_token() override {}
  void finish() override {
    next_->end_token();
    next_->finish();
  }
};

class MetaspaceDecoder : public TokenStage {
 public:
  MetaspaceDecoder(std::string replacement, bool strip_first)
      : replacement_(std::move(replacement)), strip_first_(strip_first) {}
  void finish() override {
    first_ = true;
    next_->finish();
  }

 private:
  void on_token(std::string& token) override {
    emit(replace_all(token, replacement_, first_ && strip_first_ ? "" : " "));
    first_ = false;
  }
  std::string replacement_;
  bool strip_first_;
  bool first_ = true;
};

class WordPieceDecoder : public TokenStage {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void finish() override {
    first_ = true;
    next_->finish();
  }

 private:
  void on_token(std::string& token) override {
    std::string text = std::move(token);
    if (!first_) {
      if (text.starts_with(prefix_))
        text.erase(0, prefix_.size());
      else
        text.insert(0, " ");
    }
    first_ = false;
    emit(cleanup_ ? clean_token(std::move(text)) : text);
  }
  std::string prefix_;
  bool cleanup_;
  bool first_ = true;
};

// The suffix becomes a blank, but in the last token nothing: one token is held.
class BpeDecoder : public TokenStage {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void finish() override {
    if (holds_) emit(replace_all(held_, suffix_, ""));
    holds_ = false;
    next_->finish();
  }

 private:
  void on_token(std::string& token) override {
    if (holds_) emit(replace_all(held_, suffix_, " "));
    held_ = token;
    holds_ = true;
  }
  std::string suffix_, held_;
  bool holds_ = false;
};

class CtcDecoder : public TokenStage {
 public:
  CtcDecoder(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  void finish() override {
    any_ = false;
    next_->finish();
  }

 private:
  void on_token(std::string& token) override {
    if (any_ && token == last_) return;
    last_ = token;
    any_ = true;
    std::string text = replace_all(token, pad_, "");
    if (cleanup_) text = replace_all(clean_token(std::move(text)), delimiter_, " ");
    if (!text.empty()) emit(text);
  }
  std::string pad_, delimiter_, last_;
  bool cleanup_;
  bool any_ = false;
};

class RegexReplaceDecoder : public TokenStage {
 public:
  RegexReplaceDecoder(Pattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

 private:
  void on_token(std::string& token) override {
    std::vector<Segment> segments;
    pattern_.segments(token, scratch_, segments);
    std::string text;
    for (const Segment& s : segments)
      text += s.match ? std::string_view(content_)
                      : std::string_view(token).substr(s.begin, s.end - s.begin);
    emit(text);
  }
  Pattern pattern_;
  std::string content_;
  RegexScratch scratch_;
};

// SentencePiece's own decoding. Of a run of byte tokens every byte that is not part of a character
// becomes one U+FFFD; leading marks go.
class SentencePieceDecoder : public TokenStage {
 public:
  explicit SentencePieceDecoder(const Json& json)
      : strip_first_(bool_field(json, "strip_first", true)),
        strip_all_(bool_field(json, "strip_all", false)),
        unk_piece_(string_field(json, "unk_piece")),
        unk_surface_(string_field(json, "unk_surface")) {}
  void finish() override {
    put_bytes(true);
    at_start_ = true;
    mark_seen_ = any_ = false;
    next_->finish();
  }

 private:
  void on_token(std::string& token) override {
    const int byte = byte_token_value(token);
    if (byte >= 0) {
      bytes_.push_back(static_cast<char>(byte));
      put_bytes(false);
      return;
    }
    put_bytes(true);
    if (mark_seen_ || any_) at_start_ = false;
    if (token == unk_piece_) {
      put(unk_surface_);
      return;
    }
    if (at_start_ && strip_first_ && token.starts_with("▁")) {
      token.erase(0, std::string_view("▁").size());
      mark_seen_ = !strip_all_;
    }
    put(replace_all(std::move(token), "▁", " "));
  }

  void put(std::string_view text) {
    any_ |= !text.empty();
    emit(text);
  }

  // All characters that are certain; with `all` the rest too.
  void put_bytes(bool all) {
    std::string text;
    const char* p = bytes_.data();
    const char* end = p + bytes_.size();
    while (p < end) {
      const Utf8Char c = decode_utf8(p, end);
      if (!c.valid && !all && is_incomplete_utf8(p, end)) break;
      append_utf8(text, c.code);
      p += c.valid ? c.size : 1;
    }
    bytes_.erase(0, static_cast<std::size_t>(p - bytes_.data()));
    if (!text.empty()) put(text);
  }

  bool strip_first_, strip_all_;
  std::string unk_piece_, unk_surface_;
  std::string bytes_;
  bool at_start_ = true;
  bool mark_seen_ = false;
  bool any_ = false;
};

// No decoder: tokens joined with blanks.
class JoinDecoder : public TokenStage {
 public:
  void finish() override {
    first_ = true;
    next_->finish();
  }

 private:
  void on_token(std::string& token) override {
    emit(first_ ? token : " " + token);
    first_ = false;
  }
  bool first_ = true;
};

void add_strip(const Json& json, Stages& stages) {
  const std::string content = string_field(json, "content", " ");
  const std::int64_t start = int_field(json, "start", 0);
  const std::int64_t stop = int_field(json, "stop", 0);
  if (content.empty() || start < 0 || stop < 0 || start > 1000 || stop > 1000)
    fail(ErrorCode::kBadInput, "[tokenizer.decoder] Strip with content {:?}, start {}, stop {}",
         content, start, stop);
  stages.push_back(
      std::make_unique<StripStage>(content, static_cast<int>(start), static_cast<int>(stop)));
}

void add_replace(const Json& json, Stages& stages) {
  const Json* field = find_field(json, "pattern");
  if (field == nullptr) bad_field("pattern", "a String or a Regex");
  Pattern pattern = Pattern::from_json(*field, "decoder");
  const std::string content = string_field(json, "content");
  if (pattern.is_literal() && !pattern.text().empty())
    stages.push_back(std::make_unique<ReplaceStage>(pattern.text(), content));
  else if (!pattern.is_literal())
    stages.push_back(std::make_unique<RegexReplaceDecoder>(std::move(pattern), content));
}

void add_metaspace(const Json& json, Stages& stages) {
  const bool prefix = bool_field(json, "add_prefix_space", true);
  const std::string scheme = string_field(json, "prepend_scheme", prefix ? "always" : "never");
  stages.push_back(std::make_unique<MetaspaceDecoder>(string_field(json, "replacement", "▁"),
                                                      scheme != "never"));
}

void add_stages(const Json& json, Stages& stages) {
  const std::string type = string_field(json, "type");
  if (type == "Sequence") {
    for (const Json& part : array_field(json, "decoders")) add_stages(part, stages);
  } else if (type == "ByteLevel") {
    stages.push_back(std::make_unique<ByteLevelDecoder>());
  } else if (type == "ByteFallback") {
    stages.push_back(std::make_unique<ByteFallbackDecoder>());
  } else if (type == "Fuse") {
    stages.push_back(std::make_unique<FuseDecoder>());
  } else if (type == "Strip") {
    add_strip(json, stages);
  } else if (type == "Replace") {
    add_replace(json, stages);
  } else if (type == "Metaspace") {
    add_metaspace(json, stages);
  } else if (type == "WordPiece") {
    stages.push_back(std::make_unique<WordPieceDecoder>(string_field(json, "prefix", "##"),
                                                        bool_field(json, "cleanup", true)));
  } else if (type == "BPEDecoder") {
    stages.push_back(std::make_unique<BpeDecoder>(string_field(json, "suffix", "</w>")));
  } else if (type == "ingot.sentencepiece") {
    stages.push_back(std::make_unique<SentencePieceDecoder>(json));
  } else if (type == "CTC") {
    stages.push_back(std::make_unique<CtcDecoder>(string_field(json, "pad_token", "<pad>"),
                                                  string_field(json, "word_delimiter_token", "|"),
                                                  bool_field(json, "cleanup", true)));
  } else {
    unknown_type("decoder", type);
  }
}

}  // namespace

struct DecoderChain::Sink : DecoderStage {
  void fragment(std::string_view text) override { out += text; }
  void end_token() override {}
  void finish() override {}
  std::string out;
};

DecoderChain::DecoderChain() : sink_(std::make_unique<Sink>()) {}
DecoderChain::DecoderChain(DecoderChain&&) noexcept = default;
DecoderChain& DecoderChain::operator=(DecoderChain&&) noexcept = default;
DecoderChain::~DecoderChain() = default;

DecoderChain DecoderChain::make(const Json& json, bool clean_up) {
  DecoderChain chain;
  if (json.is_null())
    chain.stages_.push_back(std::make_unique<JoinDecoder>());
  else
    add_stages(json, chain.stages_);
  if (clean_up) {
    static constexpr std::pair<std::string_view, std::string_view> kRules[] = {
        {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
        {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    chain.stages_.push_back(std::make_unique<FuseDecoder>());
    for (const auto& [what, with] : kRules)
      chain.stages_.push_back(std::make_unique<ReplaceStage>(std::string(what), std::string(with)));
  }
  for (std::size_t i = 0; i < chain.stages_.size(); ++i)
    chain.stages_[i]->set_next(i + 1 < chain.stages_.size() ? chain.stages_[i + 1].get()
                                                            : chain.sink_.get());
  return chain;
}

void DecoderChain::push(std::string_view token) {
  DecoderStage& first = stages_.empty() ? *sink_ : *stages_.front();
  first.fragment(token);
  first.end_token();
}

void DecoderChain::finish() {
  if (!stages_.empty()) stages_.front()->finish();
}

std::string DecoderChain::take() {
  return std::exchange(sink_->out, {});
}

}  // namespace ingot
