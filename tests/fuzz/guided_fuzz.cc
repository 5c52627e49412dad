// Any bytes as a description of structured output (the first byte says of which kind): refused, or
// masks that keep their promises.
#include "base/error.h"
#include "grammar/ebnf_printer.h"
#include "grammar/matcher.h"
#include "text/byte_level.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace ingot;

Tokenizer make_tokenizer() {
  GgufVocab vocab;
  vocab.model = "gpt2";
  vocab.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    vocab.tokens.push_back(to_byte_level(std::string(1, static_cast<char>(byte))));
  for (const char* text :
       {"ab", "\":", "\", \"", "  ", "\n\n\n\n", "true", "}}", "12", "é", "aé\""})
    vocab.tokens.push_back(to_byte_level(text));
  vocab.token_types.assign(vocab.tokens.size(), 1);
  vocab.tokens.emplace_back("<|end|>");
  vocab.token_types.push_back(3);
  vocab.eos_id = static_cast<std::int32_t>(vocab.tokens.size() - 1);
  return tokenizer_from_gguf(vocab);
}

struct World {
  World()
      : tokenizer(make_tokenizer()),
        vocabulary(std::make_shared<const grammar::GrammarVocabulary>(
            tokenizer, GrammarVocabularyOptions{.rows = tokenizer.vocab_size() + 5})),
        engine(vocabulary->tokens()) {
    limits.max_text_bytes = 4096;
    limits.max_repeat = 200;
    limits.max_expressions = 20'000;
    limits.max_printed_bytes = 1 << 18;
    limits.max_seconds = 3;
  }
  Tokenizer tokenizer;
  std::shared_ptr<const grammar::GrammarVocabulary> vocabulary;
  grammar::MaskEngine engine;
  grammar::GrammarLimits limits;
};

// Draws a text under the masks: every token that a mask allows is accepted, some that it does not
// are not, a byte always leads on (this vocabulary has them all), and rolling back restores masks.
void walk(const std::shared_ptr<const CompiledGrammar>& compiled, std::uint64_t seed) {
  GrammarMatcher matcher(compiled);
  std::vector<std::uint32_t> mask(matcher.mask_words()), again(mask.size());
  for (int step = 0; step < 24 && !matcher.is_terminated(); ++step) {
    if (!matcher.fill_mask(mask)) {
      if (!matcher.is_exhausted()) std::abort();
      return;
    }
    std::vector<std::int32_t> allowed;
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(mask.size() * 32); ++id) {
      const bool may = (mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0;
      if (may) allowed.push_back(id);
      if (!may && id % 13 == step % 13 && matcher.accept(id)) std::abort();
    }
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    const std::int32_t id = allowed[(seed >> 33) % allowed.size()];
    const bool whole = matcher.is_complete();
    if (!matcher.accept(id)) std::abort();
    matcher.rollback(1);
    matcher.fill_mask(again);
    if (!matcher.is_exhausted() && (again != mask || matcher.is_complete() != whole)) std::abort();
    if (!matcher.accept(id)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ingot;
  static const World world;
  if (size == 0) return 0;
  Grammar description;
  description.text.assign(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      description.kind = GrammarKind::kJsonSchema;
      break;
    case 1:
      description.kind = GrammarKind::kRegex;
      break;
    case 2:
      description.kind = GrammarKind::kEbnf;
      break;
    default:
      description.kind = GrammarKind::kChoice;
      for (std::size_t at = 0; at < description.text.size();) {
        const std::size_t end = std::min(description.text.find('\n', at), description.text.size());
        description.choices.push_back(description.text.substr(at, end - at));
        at = end + 1;
      }
  }
  description.max_whitespace = data[0] / 4 % 3;
  try {
    const grammar::Deadline deadline(world.limits.max_seconds, nullptr);
    const auto rules = grammar::lower(description, world.limits, deadline);
    auto machine = world.engine.compile(grammar::print_ebnf(rules, "guided"));
    walk(std::make_shared<const CompiledGrammar>(description, machine, world.vocabulary), size);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kRequest) std::abort();
    // What gets as far as the engine is something that it takes.
    if (e.message().starts_with("[guided.masks]")) std::abort();
  }
  return 0;
}
