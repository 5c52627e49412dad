#include "text/json_fields.h"
#include "text/sentencepiece_model.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

// A SentencePiece model file, encoded and decoded as that library does.
namespace ingot {
namespace {

constexpr auto kBad = ErrorCode::kBadInput;

void read_pieces(const SentencePieceModel& model, TokenizerSpec& spec, Json& symbols) {
  for (const SentencePiece& piece : model.pieces) {
    const auto id = static_cast<std::int32_t>(spec.tokens.size());
    if (!is_utf8(piece.text)) fail(kBad, "[sentencepiece] piece {} is not UTF-8", id);
    std::uint8_t flags = kModelVocab;
    if (piece.type == PieceType::kNormal) flags |= kInModel;
    if (piece.type == PieceType::kControl) flags |= kAdded | kSpecial;
    if (piece.type == PieceType::kUserDefined) flags |= kAdded;
    spec.put(id, piece.text, flags, kMaxTokens);
    spec.scores.push_back(double{piece.score});
    if (piece.text.empty() || (flags & kAdded) == 0) continue;
    const bool user_defined = piece.type == PieceType::kUserDefined;
    // User-defined symbols are found in the normalised text, which leaves them as they are.
    spec.added.push_back({.content = piece.text,
                          .id = id,
                          .special = !user_defined,
                          .normalized = user_defined,
                          .as_spelled = true});
    if (user_defined) symbols.push_back(piece.text);
  }
}

std::optional<std::int32_t> valid_id(const SentencePieceModel& model, std::int32_t id) {
  if (id < 0 || static_cast<std::size_t>(id) >= model.pieces.size()) return std::nullopt;
  return id;
}

bool legacy(std::string_view config_json) {
  if (config_json.empty()) return true;
  return bool_field(parse_json(config_json, "tokenizer_config.json"), "legacy", true);
}

void set_model(const SentencePieceModel& model, TokenizerSpec& spec) {
  const std::string unk = spec.unk ? spec.tokens[static_cast<std::size_t>(*spec.unk)] : "";
  if (model.model_type == 2) {
    spec.merges = merges_by_score(spec.tokens, spec.flags, spec.scores);
    *spec.model = {{"type", "BPE"}, {"byte_fallback", model.byte_fallback}, {"fuse_unk", true}};
    if (spec.unk) (*spec.model)["unk_token"] = unk;
  } else if (model.model_type == 1) {
    *spec.model = {{"type", "Unigram"}, {"byte_fallback", model.byte_fallback}};
    if (spec.unk) (*spec.model)["unk_id"] = *spec.unk;
  } else {
    fail(kBad, "[sentencepiece] model type {} is not supported: wanted Unigram (1) or BPE (2)",
         model.model_type);
  }
}

}  // namespace

Tokenizer tokenizer_from_sentencepiece(std::string_view model_bytes,
                                       std::string_view tokenizer_config_json) {
  SentencePieceModel model = parse_sentencepiece(model_bytes);
  TokenizerSpec spec;
  Json symbols = Json::array();
  read_pieces(model, spec, symbols);
  spec.unk = valid_id(model, model.unk_id);
  spec.bos = valid_id(model, model.bos_id);
  spec.eos = valid_id(model, model.eos_id);
  spec.pad = valid_id(model, model.pad_id);
  set_model(model, spec);
  spec.charsmap = std::move(model.charsmap);
  *spec.normalizer = {{"type", "ingot.sentencepiece"},
                      {"add_dummy_prefix", model.add_dummy_prefix},
                      {"every_part", legacy(tokenizer_config_json)},
                      {"remove_extra_whitespaces", model.remove_extra_whitespaces},
                      {"whitespace_suffix", model.whitespace_suffix},
                      {"escape_whitespaces", model.escape_whitespaces},
                      {"symbols", symbols}};
  *spec.decoder = {{"type", "ingot.sentencepiece"},
                   {"strip_first", model.add_dummy_prefix || model.remove_extra_whitespaces},
                   {"strip_all", model.remove_extra_whitespaces},
                   {"unk_piece", spec.unk ? spec.tokens[static_cast<std::size_t>(*spec.unk)] : ""},
                   {"unk_surface", model.unk_surface}};
  // A Llama-like model begins with BOS unless its config says otherwise.
  if (spec.bos) spec.prefix = {*spec.bos};
  apply_tokenizer_config(tokenizer_config_json, spec);
  return Tokenizer::own(compile_tokenizer(spec));
}

}  // namespace ingot
