#pragma once

#include "plan/engine_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// A template that knows the tokenizer's BOS, EOS, PAD and UNK by name.
ChatTemplate make_chat_template(std::string_view source, const Tokenizer& tokenizer);
// Ids of a rendered chat: what users wrote never becomes a control token.
std::vector<std::int32_t> encode_rendered(const Tokenizer& tokenizer, const RenderedChat& chat);

// The text side of a model: tokenizer and chat template, without weights or device.
class ModelText {
 public:
  // MODEL as for Model::open; a checkpoint is read, no engine is built. Throws Error.
  static ModelText open(const std::string& model);

  // Throws Error{kBadInput} when the model has none.
  const Tokenizer& tokenizer() const;
  // Parsed at first use. Throws Error{kBadInput}: none, or what is wrong with it and where.
  const ChatTemplate& chat_template();
  std::vector<std::int32_t> encode_chat(const RenderedChat& chat) const {
    return encode_rendered(tokenizer(), chat);
  }

 private:
  ModelText() = default;

  std::string name_;
  std::unique_ptr<EngineFile> file_;  // holds the tokenizer's image
  std::optional<Tokenizer> tokenizer_;
  std::string template_source_;
  std::optional<ChatTemplate> chat_template_;
};

}  // namespace ingot
