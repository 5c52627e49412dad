#include "builder/checkpoint_text.h"

#include "base/error.h"
#include "base/file.h"
#include "formats/hf_config.h"
#include "text/tokenizer.h"

#include <nlohmann/json.hpp>

namespace ingot {

namespace fs = std::filesystem;

namespace {

void add_tokenizer(const Tokenizer& tokenizer, Checkpoint& c) {
  c.tokenizer_image = tokenizer.serialize();
  for (const std::int32_t id : tokenizer.end_ids()) c.end_ids.push_back(id);
  if (!c.config.bos_id) c.config.bos_id = tokenizer.bos_id();
}

// A string, or a list of {name, template} of which "default" is meant.
std::string template_from_config(const HfConfig& config) {
  if (config.is_text("chat_template")) return config.text("chat_template");
  if (!config.is_list("chat_template")) return {};
  for (const auto& entry : config.json().at("chat_template")) {
    const auto is_text = [&](const char* key) {
      return entry.is_object() && entry.contains(key) && entry.at(key).is_string();
    };
    if (is_text("name") && is_text("template") && entry.at("name") == "default")
      return entry.at("template").get<std::string>();
  }
  config.refuse("chat_template", "lists templates, none of them named default");
}

void read_generation(const HfConfig& config, Checkpoint& c) {
  GenerationDefaults& g = c.generation;
  const auto number = [&](const char* key, double low, double high) {
    const std::optional<double> x = config.find_number(key);
    if (x && !(*x >= low && *x <= high))
      config.refuse(key, fmt::format("{}: wanted {} to {}", *x, low, high));
    return x;
  };
  constexpr double kTiny = 1e-6;
  g.do_sample = config.find_boolean("do_sample");
  g.temperature = number("temperature", 0, 1e6);
  if (const auto k = config.find_integer("top_k")) {
    if (*k < 0 || *k > INT32_MAX) config.refuse("top_k", fmt::format("{} is no sensible size", *k));
    g.top_k = static_cast<std::int32_t>(*k);
  }
  g.top_p = number("top_p", kTiny, 1);
  g.min_p = number("min_p", 0, 1);
  g.repetition_penalty = number("repetition_penalty", kTiny, 1e6);
  if (!config.has("eos_token_id")) return;
  for (const std::int64_t id : config.integers("eos_token_id"))
    c.end_ids.push_back(token_id(config, "eos_token_id", id));
}

// What is wrong with a tokenizer's files is told with the folder they are in.
Tokenizer read_tokenizer(const fs::path& folder, const std::string& config) {
  try {
    if (fs::exists(folder / "tokenizer.json"))
      return tokenizer_from_json(read_file(folder / "tokenizer.json"), config);
    const std::string model = read_file(folder / "tokenizer.model");
    return is_tiktoken(model) ? tokenizer_from_tiktoken(model)
                              : tokenizer_from_sentencepiece(model, config);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kBadInput) throw;
    fail(e.code(), "{}; in {}", e.message(), folder.string());
  }
}

std::string read_if_there(const fs::path& path) {
  return fs::exists(path) ? read_file(path) : std::string();
}

std::optional<std::int32_t> id_of(const GgufMetadata& m, std::string_view key) {
  const auto value = m.integer(key);
  // All ones stand for none.
  return value && *value >= 0 && *value <= INT32_MAX
             ? std::optional(static_cast<std::int32_t>(*value))
             : std::nullopt;
}

}  // namespace

void read_folder_text(const fs::path& folder, Checkpoint& c) {
  const std::string tokenizer_config = read_if_there(folder / "tokenizer_config.json");
  if (fs::exists(folder / "tokenizer.json") || fs::exists(folder / "tokenizer.model"))
    add_tokenizer(read_tokenizer(folder, tokenizer_config), c);
  c.chat_template = read_if_there(folder / "chat_template.jinja");
  if (c.chat_template.empty() && !tokenizer_config.empty())
    c.chat_template = template_from_config(
        HfConfig::from_text(tokenizer_config, (folder / "tokenizer_config.json").string()));
  if (fs::exists(folder / "generation_config.json"))
    read_generation(HfConfig::from_file(folder / "generation_config.json"), c);
}

void read_gguf_text(const GgufMetadata& m, Checkpoint& c) {
  c.chat_template = std::string(m.text("tokenizer.chat_template").value_or(""));
  if (!m.contains("tokenizer.ggml.model") || m.text("tokenizer.ggml.model") == "none") return;
  GgufVocab vocab;
  vocab.model = std::string(m.require_text("tokenizer.ggml.model"));
  vocab.pre_tokenizer = std::string(m.text("tokenizer.ggml.pre").value_or(""));
  for (const std::string_view token : m.require_texts("tokenizer.ggml.tokens"))
    vocab.tokens.emplace_back(token);
  vocab.scores = m.floats("tokenizer.ggml.scores").value_or(std::vector<float>{});
  for (const std::int64_t type :
       m.integers("tokenizer.ggml.token_type").value_or(std::vector<std::int64_t>{}))
    vocab.token_types.push_back(static_cast<std::int32_t>(type));
  for (const std::string_view merge :
       m.texts("tokenizer.ggml.merges").value_or(std::vector<std::string_view>{}))
    vocab.merges.emplace_back(merge);
  if (const auto map = m.raw("tokenizer.ggml.precompiled_charsmap"))
    vocab.precompiled_charsmap.assign(reinterpret_cast<const char*>(map->data()), map->size());
  vocab.bos_id = id_of(m, "tokenizer.ggml.bos_token_id");
  vocab.eos_id = id_of(m, "tokenizer.ggml.eos_token_id");
  vocab.eot_id = id_of(m, "tokenizer.ggml.eot_token_id");
  vocab.eom_id = id_of(m, "tokenizer.ggml.eom_token_id");
  vocab.unk_id = id_of(m, "tokenizer.ggml.unknown_token_id");
  vocab.pad_id = id_of(m, "tokenizer.ggml.padding_token_id");
  vocab.sep_id = id_of(m, "tokenizer.ggml.seperator_token_id");  // the format's own spelling
  vocab.cls_id = id_of(m, "tokenizer.ggml.cls_token_id");
  vocab.mask_id = id_of(m, "tokenizer.ggml.mask_token_id");
  vocab.add_bos = m.boolean("tokenizer.ggml.add_bos_token");
  vocab.add_eos = m.boolean("tokenizer.ggml.add_eos_token");
  vocab.add_sep = m.boolean("tokenizer.ggml.add_sep_token");
  vocab.add_space_prefix = m.boolean("tokenizer.ggml.add_space_prefix");
  vocab.remove_extra_whitespaces = m.boolean("tokenizer.ggml.remove_extra_whitespaces");
  c.config.bos_id = vocab.bos_id;
  if (vocab.eos_id) c.config.eos_ids.push_back(*vocab.eos_id);
  if (vocab.eot_id) c.config.eos_ids.push_back(*vocab.eot_id);
  add_tokenizer(tokenizer_from_gguf(vocab), c);
}

}  // namespace ingot
