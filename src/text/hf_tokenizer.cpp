#include "text/base64.h"
#include "text/json_fields.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

#include <algorithm>
#include <string>
#include <unordered_map>

// tokenizer.json of the `tokenizers` library.
namespace ingot {
namespace {

constexpr auto kBad = ErrorCode::kBadInput;

using Ids = std::unordered_map<std::string_view, std::uint32_t>;

// Ids may have holes, but a hostile file must not ask for memory it does not pay for.
std::size_t id_limit(std::size_t entries) {
  return entries * 4 + 65536;
}

void read_vocab(const Json& model, TokenizerSpec& spec) {
  const Json* vocab = find_field(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) bad_field("vocab", "an object");
  for (const auto& [text, id] : vocab->items()) {
    if (!id.is_number_integer()) bad_field("vocab", "integer ids");
    spec.put(id.get<std::int64_t>(), text, kInModel | kModelVocab, id_limit(vocab->size()));
  }
}

void read_unigram(const Json& model, TokenizerSpec& spec) {
  const Json& vocab = array_field(model, "vocab");
  for (const Json& entry : vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      bad_field("vocab", "pairs of piece and score");
    spec.put(static_cast<std::int64_t>(spec.tokens.size()), entry[0].get<std::string>(),
             kInModel | kModelVocab, kMaxTokens);
    spec.scores.push_back(entry[1].get<double>());
  }
}

// A merge is "left right" (one blank; a no-break space is part of a token) or ["left", "right"].
std::pair<std::string, std::string> read_merge(const Json& entry) {
  if (entry.is_string()) {
    const auto& text = entry.get_ref<const std::string&>();
    const std::size_t blank = text.find(' ');
    if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos)
      return {text.substr(0, blank), text.substr(blank + 1)};
  } else if (entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
             entry[1].is_string()) {
    return {entry[0].get<std::string>(), entry[1].get<std::string>()};
  }
  bad_field("merges", "two tokens each");
}

void read_merges(const Json& model, TokenizerSpec& spec) {
  Ids ids;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id)
    if (spec.flags[id] != 0) ids[spec.tokens[id]] = static_cast<std::uint32_t>(id);
  const auto id_of = [&](const std::string& text) {
    const auto it = ids.find(text);
    if (it == ids.end())
      fail(kBad, "[tokenizer.json] a merge needs {:?}, which the vocabulary lacks", text);
    return it->second;
  };
  // The library counts the prefix in characters and cuts bytes; prefixes are ASCII.
  const std::size_t prefix = string_field(model, "continuing_subword_prefix").size();
  std::uint32_t rank = 0;
  for (const Json& entry : array_field(model, "merges")) {
    const auto [left, right] = read_merge(entry);
    if (right.size() < prefix) bad_field("merges", "right tokens with the prefix");
    spec.merges.push_back({id_of(left), id_of(right), rank++, id_of(left + right.substr(prefix))});
  }
}

// The type may be missing in old files.
std::string model_type(const Json& model) {
  const std::string type = string_field(model, "type");
  if (!type.empty()) return type;
  if (find_field(model, "merges") != nullptr) return "BPE";
  const Json* vocab = find_field(model, "vocab");
  if (vocab != nullptr && vocab->is_array()) return "Unigram";
  return find_field(model, "continuing_subword_prefix") != nullptr ? "WordPiece" : "WordLevel";
}

void read_model(const Json& json, TokenizerSpec& spec) {
  const Json* model = find_field(json, "model");
  if (model == nullptr || !model->is_object()) bad_field("model", "an object");
  const std::string type = model_type(*model);
  if (type == "BPE") {
    read_vocab(*model, spec);
    read_merges(*model, spec);
  } else if (type == "Unigram") {
    read_unigram(*model, spec);
    // The library's unk_id is a plain index; null means that unknown characters are an error.
  } else if (type == "WordPiece" || type == "WordLevel") {
    read_vocab(*model, spec);
  } else {
    unknown_type("model", type);
  }
  *spec.model = *model;
  spec.model->erase("vocab");
  spec.model->erase("merges");
  (*spec.model)["type"] = type;
  if (type == "Unigram") {
    const std::int64_t unk = int_field(*model, "unk_id", -1);
    if (unk >= static_cast<std::int64_t>(spec.tokens.size()))
      bad_field("unk_id", "an index of the vocabulary");
    if (unk >= 0) spec.unk = static_cast<std::int32_t>(unk);
  } else {
    const std::string unk = string_field(*model, "unk_token");
    if (!unk.empty()) spec.unk = find_token(spec, unk);
  }
}

// Ids as the library gives them: the model's if it has the token, else the next free one, whatever
// the file says.
void add_token(AddedTokenSpec token, TokenizerSpec& spec, std::int64_t& next,
               const std::unordered_map<std::string, std::int32_t>& known) {
  if (token.content.empty()) return;
  const auto it = known.find(token.content);
  if (it != known.end()) {
    token.id = it->second;
  } else {
    token.id = static_cast<std::int32_t>(next);
    spec.put(token.id, token.content, 0, kMaxTokens);
    if (!spec.scores.empty()) spec.scores.resize(spec.tokens.size(), 0.0);
  }
  next = std::max(next, std::int64_t{token.id} + 1);
  auto& flags = spec.flags[static_cast<std::size_t>(token.id)];
  flags |= kAdded;
  // A special token comes from its own spelling alone, never from the model.
  if (token.special) flags = static_cast<std::uint8_t>((flags | kSpecial) & ~kInModel);
  spec.added.push_back(std::move(token));
}

AddedTokenSpec read_added(const Json& entry) {
  AddedTokenSpec token;
  token.content = string_field(entry, "content");
  token.special = bool_field(entry, "special", false);
  token.single_word = bool_field(entry, "single_word", false);
  token.lstrip = bool_field(entry, "lstrip", false);
  token.rstrip = bool_field(entry, "rstrip", false);
  token.normalized = bool_field(entry, "normalized", !token.special);
  return token;
}

void read_added_tokens(const Json& json, TokenizerSpec& spec) {
  if (find_field(json, "added_tokens") == nullptr) return;
  const Json& list = array_field(json, "added_tokens");
  if (list.size() > 65536) fail(kBad, "[tokenizer.json] {} added tokens, limit 65536", list.size());
  std::unordered_map<std::string, std::int32_t> known;
  std::int64_t next = 0;  // first the model's size
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if ((spec.flags[id] & kPresent) == 0) continue;
    known[spec.tokens[id]] = static_cast<std::int32_t>(id);
    ++next;
  }
  for (const Json& entry : list) {
    AddedTokenSpec token = read_added(entry);
    const std::string content = token.content;
    add_token(std::move(token), spec, next, known);
    if (!content.empty()) known.emplace(content, spec.added.back().id);
  }
}

void add_ids(const Json& special, const Json& part, std::vector<std::int32_t>& out) {
  const std::string name = string_field(part, "id");
  const Json* entry = find_field(special, name);
  if (entry == nullptr)
    fail(kBad, "[tokenizer.json] the template needs {:?}, which special_tokens lacks", name);
  for (const Json& id : array_field(*entry, "ids")) {
    if (!id.is_number_integer()) bad_field("ids", "integers");
    out.push_back(static_cast<std::int32_t>(id.get<std::int64_t>()));
  }
}

struct Around {
  std::vector<std::int32_t> before, after;
};

Around template_of(const Json& post) {
  Around around;
  static const Json kNone = Json::object();
  const Json* special = find_field(post, "special_tokens");
  bool behind = false;
  for (const Json& part : array_field(post, "single")) {
    if (const Json* sequence = find_field(part, "Sequence")) {
      if (behind || string_field(*sequence, "id") != "A") bad_field("single", "one sequence A");
      behind = true;
    } else if (const Json* token = find_field(part, "SpecialToken")) {
      add_ids(special != nullptr ? *special : kNone, *token, behind ? around.after : around.before);
    } else {
      bad_field("single", "Sequence or SpecialToken");
    }
  }
  if (!behind) bad_field("single", "one sequence A");
  return around;
}

std::int32_t pair_id(const Json& post, std::string_view name) {
  const Json& pair = array_field(post, name);
  if (pair.size() != 2 || !pair[1].is_number_integer()) bad_field(name, "a token and its id");
  return static_cast<std::int32_t>(pair[1].get<std::int64_t>());
}

void read_post_processor(const Json& post, TokenizerSpec& spec, int depth = 0) {
  if (post.is_null()) return;
  const std::string type = string_field(post, "type");
  Around around;
  if (type == "Sequence" && depth < 8) {
    for (const Json& part : array_field(post, "processors"))
      read_post_processor(part, spec, depth + 1);
  } else if (type == "TemplateProcessing") {
    around = template_of(post);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    around = {{pair_id(post, "cls")}, {pair_id(post, "sep")}};
  } else if (type != "ByteLevel") {  // which only trims offsets
    unknown_type("post_processor", type);
  }
  spec.prefix.insert(spec.prefix.begin(), around.before.begin(), around.before.end());
  spec.suffix.insert(spec.suffix.end(), around.after.begin(), around.after.end());
}

// A Precompiled normalizer's map goes to its own section.
void take_charsmap(Json& normalizer, TokenizerSpec& spec, int depth = 0) {
  if (!normalizer.is_object() || depth > 8) return;
  if (string_field(normalizer, "type") == "Sequence" && normalizer.contains("normalizers")) {
    for (Json& part : normalizer["normalizers"]) take_charsmap(part, spec, depth + 1);
  } else if (string_field(normalizer, "type") == "Precompiled") {
    std::string map = decode_base64(string_field(normalizer, "precompiled_charsmap"));
    if (!spec.charsmap.empty() && spec.charsmap != map)
      fail(kBad, "[tokenizer.json] two different Precompiled normalizers");
    spec.charsmap = std::move(map);
    normalizer.erase("precompiled_charsmap");
  }
}

// A token of tokenizer_config.json: its text, or an object with it.
std::optional<std::int32_t> config_token(const Json& config, std::string_view name,
                                         const TokenizerSpec& spec) {
  const Json* field = find_field(config, name);
  if (field == nullptr) return std::nullopt;
  const std::string text =
      field->is_object() ? string_field(*field, "content") : string_field(config, name);
  return text.empty() ? std::nullopt : find_token(spec, text);
}

void add_declared_tokens(const Json& config, TokenizerSpec& spec) {
  const Json* declared = find_field(config, "added_tokens_decoder");
  if (declared == nullptr || !declared->is_object()) return;
  for (const auto& [key, entry] : declared->items()) {
    AddedTokenSpec token = read_added(entry);
    const auto same = [&](const AddedTokenSpec& t) { return t.content == token.content; };
    if (token.content.empty() || std::any_of(spec.added.begin(), spec.added.end(), same)) continue;
    if (key.size() > 9 || key.find_first_not_of("0123456789") != std::string::npos)
      bad_field("added_tokens_decoder", "ids as keys");
    token.id = std::stoi(key);
    const auto at = static_cast<std::size_t>(token.id);
    const bool there = at < spec.tokens.size() && spec.flags[at] != 0;
    if (there && spec.tokens[at] != token.content) continue;
    if (!there) {
      if (find_token(spec, token.content)) continue;
      spec.put(token.id, token.content, 0, id_limit(spec.tokens.size()));
      if (!spec.scores.empty()) spec.scores.resize(spec.tokens.size(), 0.0);
    }
    auto& flags = spec.flags[at];
    flags |= kAdded;
    if (token.special) flags = static_cast<std::uint8_t>((flags | kSpecial) & ~kInModel);
    spec.added.push_back(std::move(token));
  }
}

}  // namespace

void apply_tokenizer_config(std::string_view config_json, TokenizerSpec& spec) {
  if (config_json.empty()) return;
  const Json config = parse_json(config_json, "tokenizer_config.json",
                                 {.max_bytes = std::size_t{256} << 20, .max_depth = 64});
  add_declared_tokens(config, spec);
  const auto take = [&](std::string_view name, std::optional<std::int32_t>& id) {
    if (const auto found = config_token(config, name, spec)) id = found;
  };
  take("bos_token", spec.bos);
  take("eos_token", spec.eos);
  take("pad_token", spec.pad);
  take("unk_token", spec.unk);
  spec.clean_up = bool_field(config, "clean_up_tokenization_spaces", false);
  // As transformers 5: when either is given, they replace the post-processor.
  if (find_field(config, "add_bos_token") == nullptr &&
      find_field(config, "add_eos_token") == nullptr)
    return;
  spec.prefix.clear();
  spec.suffix.clear();
  if (bool_field(config, "add_bos_token", false) && spec.bos) spec.prefix = {*spec.bos};
  if (bool_field(config, "add_eos_token", false) && spec.eos) spec.suffix = {*spec.eos};
}

Tokenizer tokenizer_from_json(std::string_view tokenizer_json,
                              std::string_view tokenizer_config_json) {
  const Json json = parse_json(tokenizer_json, "tokenizer.json", {.max_depth = 64});
  TokenizerSpec spec;
  read_model(json, spec);
  read_added_tokens(json, spec);
  const auto part = [&](std::string_view name) {
    const Json* field = find_field(json, name);
    return field != nullptr ? *field : Json();
  };
  *spec.normalizer = part("normalizer");
  take_charsmap(*spec.normalizer, spec);
  *spec.pre_tokenizer = part("pre_tokenizer");
  *spec.decoder = part("decoder");
  read_post_processor(part("post_processor"), spec);
  apply_tokenizer_config(tokenizer_config_json, spec);
  return Tokenizer::own(compile_tokenizer(spec));
}

}  // namespace ingot
