#include "llm/model_text.h"

#include "base/error.h"
#include "builder/checkpoint.h"
#include "llm/resolve.h"

#include <cstring>

namespace ingot {

ChatTemplate make_chat_template(std::string_view source, const Tokenizer& tokenizer) {
  ChatTemplateOptions options;
  const auto add = [&](const char* key, std::optional<std::int32_t> id) {
    if (id) options.special_tokens.emplace_back(key, tokenizer.token_text(*id));
  };
  add("bos_token", tokenizer.bos_id());
  add("eos_token", tokenizer.eos_id());
  add("pad_token", tokenizer.pad_id());
  add("unk_token", tokenizer.unk_id());
  return ChatTemplate::parse(source, std::move(options));
}

std::vector<std::int32_t> encode_rendered(const Tokenizer& tokenizer, const RenderedChat& chat) {
  // The template writes BOS itself; the post-processor's must not come a second time.
  return tokenizer.encode(
      chat.text, {.add_special = false, .parse_special = true, .foreign = chat.from_request});
}

ModelText ModelText::open(const std::string& model) {
  ModelText text;
  text.name_ = model;
  if (is_engine(model)) {
    text.file_ = std::make_unique<EngineFile>(model);
    if (const EngineBlob* blob = text.file_->find_blob("tokenizer"))
      text.tokenizer_.emplace(Tokenizer::open(text.file_->bytes(*blob)));
    if (const EngineBlob* blob = text.file_->find_blob("chat_template")) {
      const auto bytes = text.file_->verified(*blob);
      text.template_source_.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return text;
  }
  Checkpoint checkpoint = open_checkpoint(resolve_checkpoint(model, {}));
  text.template_source_ = std::move(checkpoint.chat_template);
  const std::string& image = checkpoint.tokenizer_image;
  if (image.empty()) return text;
  std::vector<std::byte> bytes(image.size());
  std::memcpy(bytes.data(), image.data(), image.size());
  text.tokenizer_.emplace(Tokenizer::own(std::move(bytes)));
  return text;
}

const Tokenizer& ModelText::tokenizer() const {
  if (!tokenizer_) fail(ErrorCode::kBadInput, "[model.tokenizer] {} has no tokenizer", name_);
  return *tokenizer_;
}

const ChatTemplate& ModelText::chat_template() {
  if (chat_template_) return *chat_template_;
  if (template_source_.empty())
    fail(ErrorCode::kBadInput, "[model.chat_template] {} has no chat template", name_);
  return chat_template_.emplace(make_chat_template(template_source_, tokenizer()));
}

}  // namespace ingot
