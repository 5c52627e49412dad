#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/scanners.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

#include <algorithm>
#include <array>
#include <unordered_map>

// The vocabulary of a GGUF file, told in the language of tokenizer.json.
namespace ingot {
namespace {

constexpr auto kBad = ErrorCode::kBadInput;
constexpr std::string_view kMark = "▁";

enum TokenType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

Json split(std::string_view pattern, const char* behavior = "Isolated") {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", behavior},
          {"invert", false}};
}

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json digits(bool individual) {
  return {{"type", "Digits"}, {"individual_digits", individual}};
}

Json sequence(std::initializer_list<Json> parts) {
  return {{"type", "Sequence"}, {"pretokenizers", Json(parts)}};
}

// Splits by patterns one after the other, then bytes.
Json patterns(std::initializer_list<std::string_view> list) {
  Json parts = Json::array();
  for (const std::string_view pattern : list) parts.push_back(split(pattern));
  parts.push_back(byte_level(false));
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

// How a name of tokenizer.ggml.pre splits.
enum class Splitter {
  kGpt2,
  kDigitsGpt2,
  kLlama3,
  kQwen2,
  kQwen35,
  kO200k,
  kTekken,
  kFalcon,
  kDeepseekLlm,
  kDeepseekCoder,
  kDeepseek3,
  kBloom,
  kDefault,
};

struct PreTokenizerName {
  std::string_view name;
  Splitter splitter;
  bool ignore_merges = false;
  bool add_bos = false;
};

// A name that stands for a model family; the patterns are those of its tokenizer.json.
constexpr PreTokenizerName kNames[] = {
    {"", Splitter::kDefault},
    {"default", Splitter::kDefault},
    {"gpt-2", Splitter::kGpt2},
    {"phi-2", Splitter::kGpt2},
    {"mpt", Splitter::kGpt2},
    {"olmo", Splitter::kGpt2},
    {"jais", Splitter::kGpt2},
    {"gigachat", Splitter::kGpt2},
    {"roberta-bpe", Splitter::kGpt2},
    {"modern-bert", Splitter::kGpt2},
    {"exaone4", Splitter::kGpt2},
    {"trillion", Splitter::kGpt2},
    {"granite-docling", Splitter::kGpt2},
    {"smollm", Splitter::kDigitsGpt2},
    {"starcoder", Splitter::kDigitsGpt2},
    {"refact", Splitter::kDigitsGpt2},
    {"command-r", Splitter::kDigitsGpt2},
    {"codeshell", Splitter::kDigitsGpt2},
    {"exaone", Splitter::kDigitsGpt2},
    {"minerva-7b", Splitter::kDigitsGpt2},
    {"llama3", Splitter::kLlama3, true, true},
    {"llama-v3", Splitter::kLlama3, true, true},
    {"llama-bpe", Splitter::kLlama3, true, true},
    {"falcon3", Splitter::kLlama3, true, true},
    {"falcon-h1", Splitter::kLlama3, true, true},
    {"pixtral", Splitter::kLlama3, true, true},
    {"lfm2", Splitter::kLlama3, true, true},
    {"dbrx", Splitter::kLlama3},
    {"smaug-bpe", Splitter::kLlama3},
    {"chatglm-bpe", Splitter::kLlama3},
    {"glm4", Splitter::kLlama3, true},
    {"qwen2", Splitter::kQwen2},
    {"deepseek-r1-qwen", Splitter::kQwen2},
    {"megrez", Splitter::kQwen2},
    {"stablelm2", Splitter::kQwen2},
    {"hunyuan", Splitter::kQwen2},
    {"grok-2", Splitter::kQwen2},
    {"qwen35", Splitter::kQwen35},
    {"gpt-4o", Splitter::kO200k},
    {"llama4", Splitter::kO200k},
    {"tekken", Splitter::kTekken, true, true},
    {"falcon", Splitter::kFalcon},
    {"deepseek-llm", Splitter::kDeepseekLlm},
    {"deepseek-coder", Splitter::kDeepseekCoder},
    {"deepseek-v3", Splitter::kDeepseek3},
    {"hunyuan-dense", Splitter::kDeepseek3},
    {"poro-chat", Splitter::kBloom},
    {"bloom", Splitter::kBloom},
    {"gpt3-finnish", Splitter::kBloom},
};

const PreTokenizerName& find_pre_tokenizer(std::string_view name) {
  const auto* it = std::find_if(std::begin(kNames), std::end(kNames),
                                [&](const PreTokenizerName& n) { return n.name == name; });
  if (it == std::end(kNames))
    fail(kBad, "[gguf.tokenizer] tokenizer.ggml.pre {:?} is not supported", name);
  return *it;
}

constexpr std::string_view kDeepseekWords =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf})"
    R"(\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d})"
    R"(\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5})"
    R"(\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5})"
    R"(\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b})"
    R"(\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d})"
    R"(\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d})"
    R"(\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4})"
    R"(\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec})"
    R"(\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115})"
    R"(\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134})"
    R"(\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184})"
    R"(\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3})"
    R"(\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787})"
    R"(\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17})"
    R"(\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3})"
    R"(\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943}]+)";

Json pre_tokenizer_of(Splitter splitter) {
  switch (splitter) {
    case Splitter::kGpt2:
      return byte_level(true);
    case Splitter::kDigitsGpt2:
      return sequence({digits(true), byte_level(true)});
    case Splitter::kLlama3:
      return patterns({kLlama3Pattern});
    case Splitter::kQwen2:
      return patterns({kQwen2Pattern});
    case Splitter::kQwen35:
      return patterns({kQwen35Pattern});
    case Splitter::kO200k:
      return patterns({kO200kPattern});
    case Splitter::kTekken:
      return patterns({kTekkenPattern});
    case Splitter::kFalcon:
      return patterns({R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"});
    case Splitter::kDeepseekLlm:
      return patterns(
          {"[\r\n]", kDeepseekWords,
           R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)",
           R"(\s+$)", R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)", R"(\p{N})"});
    case Splitter::kDeepseekCoder:
      return patterns({"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                       R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)", R"(\p{N})"});
    case Splitter::kDeepseek3:
      return patterns(
          {R"(\p{N}{1,3})", R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)",
           "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
           "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"});
    case Splitter::kBloom:
      return patterns({R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)"});
    case Splitter::kDefault:
      return patterns({R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"});
  }
  fail(ErrorCode::kBug, "[gguf.tokenizer] splitter");
}

int type_of(const GgufVocab& vocab, std::size_t id) {
  return vocab.token_types.empty() ? kNormal : vocab.token_types[id];
}

// Tokens with what they may be; control and user-defined tokens become added tokens.
void read_tokens(const GgufVocab& vocab, TokenizerSpec& spec) {
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    std::string text = vocab.tokens[id];
    if (!is_utf8(text)) text = lossy_utf8(text);
    const int type = type_of(vocab, id);
    std::uint8_t flags = kModelVocab;
    if (type == kNormal || type == kUserDefined) flags |= kInModel;
    if (type == kControl || type == kUnknown) flags |= kAdded | kSpecial;
    if (type == kUserDefined) flags |= kAdded;
    spec.put(static_cast<std::int64_t>(id), text, flags, kMaxTokens);
    if ((flags & kAdded) != 0 && !text.empty())
      spec.added.push_back({.content = std::move(text),
                            .id = static_cast<std::int32_t>(id),
                            .special = (flags & kSpecial) != 0});
  }
}

void read_gguf_merges(const GgufVocab& vocab, TokenizerSpec& spec) {
  std::unordered_map<std::string_view, std::uint32_t> ids;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id)
    ids[spec.tokens[id]] = static_cast<std::uint32_t>(id);
  std::uint32_t rank = 0;
  std::string joined;
  for (const std::string& merge : vocab.merges) {
    ++rank;
    // A token may begin with a blank, hence the search starts behind the first character.
    const std::size_t blank = merge.find(' ', 1);
    if (blank == std::string::npos)
      fail(kBad, "[gguf.tokenizer] merge {} has no blank: {:?}", rank - 1, merge.substr(0, 80));
    const std::string_view left = std::string_view(merge).substr(0, blank);
    const std::string_view right = std::string_view(merge).substr(blank + 1);
    joined.assign(left).append(right);
    const auto a = ids.find(left);
    const auto b = ids.find(right);
    const auto c = ids.find(joined);
    // Some files carry merges of tokens that they lack; these can never apply.
    if (a == ids.end() || b == ids.end() || c == ids.end()) continue;
    spec.merges.push_back({a->second, b->second, rank, c->second});
  }
}

void read_byte_level_bpe(const GgufVocab& vocab, TokenizerSpec& spec) {
  const PreTokenizerName& pre = find_pre_tokenizer(vocab.pre_tokenizer);
  read_gguf_merges(vocab, spec);
  *spec.model = {{"type", "BPE"}, {"ignore_merges", pre.ignore_merges}};
  *spec.pre_tokenizer = pre_tokenizer_of(pre.splitter);
  *spec.decoder = byte_level(true);
  if (vocab.add_bos.value_or(pre.add_bos) && vocab.bos_id) spec.prefix = {*vocab.bos_id};
  if (vocab.add_eos.value_or(false) && vocab.eos_id) spec.suffix = {*vocab.eos_id};
}

Json replace_blank() {
  return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}};
}

Json spm_decoder(bool strip) {
  Json parts = Json::array();
  parts.push_back({{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}});
  parts.push_back({{"type", "ByteFallback"}});
  parts.push_back({{"type", "Fuse"}});
  if (strip) parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", parts}};
}

// SentencePiece's BPE: marks for blanks, merges by score, bytes for unknown characters.
void read_spm_bpe(const GgufVocab& vocab, TokenizerSpec& spec) {
  std::vector<double> scores(vocab.scores.begin(), vocab.scores.end());
  scores.resize(spec.tokens.size(), 0.0);
  spec.merges = merges_by_score(spec.tokens, spec.flags, scores);
  const bool prefix = vocab.add_space_prefix.value_or(true);
  *spec.model = {{"type", "BPE"}, {"byte_fallback", true}, {"fuse_unk", true}};
  Json normalizers = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  normalizers.push_back(replace_blank());
  *spec.normalizer = {{"type", "Sequence"}, {"normalizers", normalizers}};
  *spec.decoder = spm_decoder(prefix);
  if (vocab.add_bos.value_or(true) && vocab.bos_id) spec.prefix = {*vocab.bos_id};
  if (vocab.add_eos.value_or(false) && vocab.eos_id) spec.suffix = {*vocab.eos_id};
}

// Gemma 4: merges as a list over text with marks; newlines never join other characters.
void read_gemma4(const GgufVocab& vocab, TokenizerSpec& spec) {
  read_gguf_merges(vocab, spec);
  *spec.model = {{"type", "BPE"}, {"byte_fallback", true}, {"fuse_unk", true}};
  *spec.normalizer = replace_blank();
  *spec.pre_tokenizer = split("[^\\n]+|[\\n]+");
  *spec.decoder = spm_decoder(false);
  if (vocab.add_bos.value_or(true) && vocab.bos_id) spec.prefix = {*vocab.bos_id};
  if (vocab.add_eos.value_or(false) && vocab.eos_id) spec.suffix = {*vocab.eos_id};
}

void read_unigram(const GgufVocab& vocab, TokenizerSpec& spec) {
  spec.scores.assign(vocab.scores.begin(), vocab.scores.end());
  spec.scores.resize(spec.tokens.size(), 0.0);
  *spec.model = {{"type", "Unigram"}, {"unk_id", vocab.unk_id.value_or(0)}};
  Json normalizers = Json::array();
  if (!vocab.precompiled_charsmap.empty()) {
    spec.charsmap = vocab.precompiled_charsmap;
    normalizers.push_back({{"type", "Precompiled"}});
  }
  if (vocab.remove_extra_whitespaces.value_or(false)) {
    normalizers.push_back({{"type", "Strip"}});
    normalizers.push_back(
        {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  *spec.normalizer = {{"type", "Sequence"}, {"normalizers", normalizers}};
  const bool prefix = vocab.add_space_prefix.value_or(true);
  const Json metaspace = {{"type", "Metaspace"},
                          {"replacement", kMark},
                          {"prepend_scheme", prefix ? "always" : "never"},
                          {"split", true}};
  *spec.pre_tokenizer = metaspace;
  if (!prefix) (*spec.pre_tokenizer)["add_prefix_space"] = false;
  *spec.decoder = *spec.pre_tokenizer;
  if (vocab.add_bos.value_or(false) && vocab.bos_id) spec.prefix = {*vocab.bos_id};
  if (vocab.add_eos.value_or(true) && vocab.eos_id) spec.suffix = {*vocab.eos_id};
}

// BERT in GGUF spells words with a mark in front and continuations bare.
void read_wordpiece(const GgufVocab& vocab, TokenizerSpec& spec) {
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if ((spec.flags[id] & kAdded) != 0) continue;
    std::string& text = spec.tokens[id];
    text = text.starts_with(kMark) ? text.substr(kMark.size()) : "##" + text;
  }
  const std::int32_t unk = vocab.unk_id.value_or(-1);
  const bool has_unk = unk >= 0 && static_cast<std::size_t>(unk) < spec.tokens.size();
  *spec.model = {{"type", "WordPiece"},
                 {"unk_token", has_unk ? spec.tokens[static_cast<std::size_t>(unk)] : "[UNK]"},
                 {"continuing_subword_prefix", "##"},
                 {"max_input_chars_per_word", 100}};
  *spec.normalizer = {{"type", "BertNormalizer"},
                      {"clean_text", true},
                      {"handle_chinese_chars", true},
                      {"strip_accents", nullptr},
                      {"lowercase", true}};
  *spec.pre_tokenizer = {{"type", "BertPreTokenizer"}};
  *spec.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  const auto first = vocab.cls_id ? vocab.cls_id : vocab.bos_id;
  const auto last = vocab.sep_id ? vocab.sep_id : vocab.eos_id;
  if (vocab.add_bos.value_or(true) && first) spec.prefix = {*first};
  if (vocab.add_sep.value_or(vocab.add_eos.value_or(true)) && last) spec.suffix = {*last};
}

// Control tokens by whose names a turn ends, for files that declare no more than eos.
constexpr std::array<std::string_view, 9> kEndNames = {
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>",         "<end_of_turn>",        "<turn|>",
    "<|end|>",    "<|eot|>",    "<end_of_utterance>", "<｜end▁of▁sentence｜>"};

void read_ids(const GgufVocab& vocab, TokenizerSpec& spec) {
  const auto valid = [&](const std::optional<std::int32_t>& id) {
    return id && *id >= 0 && static_cast<std::size_t>(*id) < spec.tokens.size();
  };
  for (const auto& id : {vocab.bos_id, vocab.eos_id, vocab.eot_id, vocab.eom_id, vocab.unk_id,
                         vocab.pad_id, vocab.sep_id, vocab.cls_id, vocab.mask_id})
    if (id && !valid(id))
      fail(kBad, "[gguf.tokenizer] special token id {} for {} tokens", *id, spec.tokens.size());
  spec.bos = vocab.bos_id;
  spec.eos = vocab.eos_id;
  spec.pad = vocab.pad_id;
  spec.unk = vocab.unk_id;
  for (const auto& id : {vocab.eot_id, vocab.eom_id})
    if (id) spec.ends.push_back(*id);
  for (const AddedTokenSpec& token : spec.added)
    if (token.special &&
        std::find(kEndNames.begin(), kEndNames.end(), token.content) != kEndNames.end())
      spec.ends.push_back(token.id);
}

}  // namespace

Tokenizer tokenizer_from_gguf(const GgufVocab& vocab) {
  if (vocab.tokens.empty()) fail(kBad, "[gguf.tokenizer] tokenizer.ggml.tokens is missing");
  for (const auto& [name, size] : {std::pair{"scores", vocab.scores.size()},
                                   std::pair{"token_type", vocab.token_types.size()}})
    if (size != 0 && size != vocab.tokens.size())
      fail(kBad, "[gguf.tokenizer] {} has {} entries for {} tokens", name, size,
           vocab.tokens.size());
  TokenizerSpec spec;
  read_tokens(vocab, spec);
  read_ids(vocab, spec);
  if (vocab.model == "gpt2") {
    read_byte_level_bpe(vocab, spec);
  } else if (vocab.model == "llama") {
    read_spm_bpe(vocab, spec);
  } else if (vocab.model == "gemma4") {
    read_gemma4(vocab, spec);
  } else if (vocab.model == "t5") {
    read_unigram(vocab, spec);
  } else if (vocab.model == "bert") {
    read_wordpiece(vocab, spec);
  } else {
    fail(kBad, "[gguf.tokenizer] tokenizer.ggml.model {:?} is not supported", vocab.model);
  }
  return Tokenizer::own(compile_tokenizer(spec));
}

}  // namespace ingot
