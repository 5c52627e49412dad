#pragma once

#include "formats/gguf_metadata.h"
#include "text/tokenizer.h"

#include <string>

namespace ingot {

// tokenizer.ggml.* as a vocabulary.
inline GgufVocab read_gguf_vocab(const GgufMetadata& data) {
  const auto key = [](const char* name) { return std::string("tokenizer.ggml.") + name; };
  const auto id = [&](const char* name) -> std::optional<std::int32_t> {
    const auto value = data.integer(key(name));
    if (!value) return std::nullopt;
    return static_cast<std::int32_t>(*value);
  };
  GgufVocab vocab;
  vocab.model = std::string(data.require_text(key("model")));
  vocab.pre_tokenizer = std::string(data.text(key("pre")).value_or(""));
  for (const auto text : data.require_texts(key("tokens"))) vocab.tokens.emplace_back(text);
  vocab.scores = data.floats(key("scores")).value_or(std::vector<float>());
  if (const auto types = data.integers(key("token_type")))
    vocab.token_types.assign(types->begin(), types->end());
  if (const auto merges = data.texts(key("merges")))
    vocab.merges.assign(merges->begin(), merges->end());
  if (const auto map = data.raw(key("precompiled_charsmap")))
    vocab.precompiled_charsmap.assign(reinterpret_cast<const char*>(map->data()), map->size());
  vocab.bos_id = id("bos_token_id");
  vocab.eos_id = id("eos_token_id");
  vocab.eot_id = id("eot_token_id");
  vocab.eom_id = id("eom_token_id");
  vocab.unk_id = id("unknown_token_id");
  vocab.pad_id = id("padding_token_id");
  vocab.sep_id = id("seperator_token_id");
  vocab.cls_id = id("cls_token_id");
  vocab.mask_id = id("mask_token_id");
  vocab.add_bos = data.boolean(key("add_bos_token"));
  vocab.add_eos = data.boolean(key("add_eos_token"));
  vocab.add_space_prefix = data.boolean(key("add_space_prefix"));
  vocab.remove_extra_whitespaces = data.boolean(key("remove_extra_whitespaces"));
  return vocab;
}

}  // namespace ingot
