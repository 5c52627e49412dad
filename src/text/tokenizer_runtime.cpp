#include "text/tokenizer_runtime.h"

#include "text/json_fields.h"

#include <cstdlib>

namespace ingot {
namespace {

constexpr std::size_t kPooled = 8;
constexpr std::size_t kLargestKept = 8u << 20;  // bytes of text whose memory is kept

std::vector<std::int32_t> id_list(const Json& pipeline, std::string_view name, int tokens) {
  std::vector<std::int32_t> ids;
  for (const Json& item : array_field(pipeline, name)) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 ||
        item.get<std::int64_t>() >= tokens)
      bad_field(name, "ids of the vocabulary");
    ids.push_back(item.get<std::int32_t>());
  }
  return ids;
}

std::optional<std::int32_t> id_of(const Json& pipeline, std::string_view name, int tokens) {
  const std::int64_t id = int_field(pipeline, name, -1);
  if (id < 0) return std::nullopt;
  if (id >= tokens) bad_field(name, "an id of the vocabulary");
  return static_cast<std::int32_t>(id);
}

void add_rule(const Json& decoder, TokenBytesRule& rule) {
  if (!decoder.is_object()) return;
  const std::string type = string_field(decoder, "type");
  if (type == "Sequence") {
    for (const Json& part : array_field(decoder, "decoders"))
      if (string_field(part, "type") != "Sequence") add_rule(part, rule);
  } else if (type == "ByteLevel") {
    rule.byte_level = true;
  } else if (type == "ByteFallback") {
    rule.byte_fallback = true;
  } else if (type == "Metaspace") {
    rule.replace.emplace_back(string_field(decoder, "replacement", "▁"), " ");
  } else if (type == "ingot.sentencepiece") {
    rule.byte_fallback = true;
    rule.replace.emplace_back("▁", " ");
  } else if (type == "BPEDecoder") {
    rule.replace.emplace_back(string_field(decoder, "suffix", "</w>"), " ");
  } else if (type == "WordPiece") {
    rule.word_piece = true;
    rule.prefix = string_field(decoder, "prefix", "##");
  } else if (type == "Replace") {
    const Json* pattern = find_field(decoder, "pattern");
    const std::string text = pattern != nullptr ? string_field(*pattern, "String") : "";
    if (!text.empty()) rule.replace.emplace_back(text, string_field(decoder, "content"));
  }
}

const Json& part_of(const Json& pipeline, std::string_view name) {
  static const Json null;
  const Json* part = find_field(pipeline, name);
  return part != nullptr ? *part : null;
}

}  // namespace

TokenizerRuntime::TokenizerRuntime(std::span<const std::byte> bytes) {
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % 8 != 0) {
    storage.assign(bytes.begin(), bytes.end());
    bytes = storage;
  }
  image = ImageView(bytes);
  load();
}

TokenizerRuntime::TokenizerRuntime(std::vector<std::byte> bytes)
    : storage(std::move(bytes)), image(storage) {
  load();
}

void TokenizerRuntime::load() {
  vocab = Vocabulary(image);
  added = AddedTokens(image, Section::kAddedTrie);
  normalized_added = AddedTokens(image, Section::kNormalizedTrie);
  const Json pipeline = parse_json(image.bytes(Section::kPipeline), "tokenizer image",
                                   {.max_bytes = std::size_t{64} << 20, .max_depth = 64});
  normalizer = make_normalizer(part_of(pipeline, "normalizer"), image.bytes(Section::kCharsmap));
  pre_tokenizer = make_pre_tokenizer(part_of(pipeline, "pre_tokenizer"), true);
  const Json& model_json = part_of(pipeline, "model");
  model = make_model(model_json, image, vocab, pre_tokenizer.byte_level_last);
  if (pre_tokenizer.byte_level_last && !model->takes_bytes())
    pre_tokenizer = make_pre_tokenizer(part_of(pipeline, "pre_tokenizer"), false);
  const Json& decoder_json = part_of(pipeline, "decoder");
  decoder = dump_json(decoder_json);
  for (const auto& [id, text] : part_of(pipeline, "respelled").items())
    if (text.is_string() && id.size() < 9)
      respelled[static_cast<std::int32_t>(std::strtol(id.c_str(), nullptr, 10))] =
          text.get<std::string>();
  clean_up = bool_field(pipeline, "clean_up", false);
  add_rule(decoder_json, bytes_rule);
  new_decoder();  // an unsupported one fails now
  prefix = id_list(pipeline, "prefix", vocab.size());
  suffix = id_list(pipeline, "suffix", vocab.size());
  ends = id_list(pipeline, "ends", vocab.size());
  bos = id_of(pipeline, "bos", vocab.size());
  eos = id_of(pipeline, "eos", vocab.size());
  pad = id_of(pipeline, "pad", vocab.size());
  unk = id_of(pipeline, "unk", vocab.size());
}

DecoderChain TokenizerRuntime::new_decoder() const {
  return DecoderChain::make(parse_json(decoder, "tokenizer image"), clean_up);
}

std::unique_ptr<EncodeScratch> TokenizerRuntime::take_scratch() const {
  {
    const std::lock_guard lock(mutex_);
    if (!pool_.empty()) {
      auto scratch = std::move(pool_.back());
      pool_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<EncodeScratch>();
}

void TokenizerRuntime::give_scratch(std::unique_ptr<EncodeScratch> scratch) const {
  if (scratch->pieces.text.capacity() > kLargestKept ||
      scratch->split.next.text.capacity() > kLargestKept)
    return;
  const std::lock_guard lock(mutex_);
  if (pool_.size() < kPooled) pool_.push_back(std::move(scratch));
}

}  // namespace ingot
