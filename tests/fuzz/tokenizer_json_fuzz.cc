#include "base/error.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

// Any bytes as tokenizer.json, SentencePiece model or rank file: an error or a tokenizer that
// works.
namespace {

void use(const ingot::Tokenizer& tokenizer) {
  const auto ids = tokenizer.encode("A b  c'll 12\n<s>\xff é 中 \xf0\x9f\x98\x80");
  ingot::TokenStream stream(tokenizer, {.skip_special = false});
  for (const auto id : ids) stream.push(id);
  stream.finish();
}

template <typename F>
void attempt(F&& make) {
  try {
    use(make());
  } catch (const ingot::Error& error) {
    if (error.code() == ingot::ErrorCode::kBug) throw;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 20000) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  attempt([&] { return ingot::tokenizer_from_json(text); });
  attempt([&] { return ingot::tokenizer_from_sentencepiece(text); });
  if (ingot::is_tiktoken(text)) attempt([&] { return ingot::tokenizer_from_tiktoken(text); });
  return 0;
}
