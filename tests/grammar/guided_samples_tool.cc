// Reads JSON Schemas, one a line, or regular expressions as texts of JSON, and writes for each a
// line of JSON: {"refused": why} or {"texts": [...], "whole": n}. The texts are drawn token by
// token under the masks; those that reached an end token come first, and there are `whole` of
// them. scripts/check_schemas validates them.
//
//   guided_samples VOCABULARY TEXTS SEED < schemas      VOCABULARY: tokenizer.json or a .gguf file
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "formats/gguf.h"
#include "grammar/compiler.h"
#include "grammar/matcher.h"

#include <fmt/format.h>

#include "tests/text/gguf_vocab.h"
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace ingot;

Tokenizer load(const std::string& path) {
  if (!path.ends_with(".gguf")) return tokenizer_from_json(read_file(path));
  return tokenizer_from_gguf(read_gguf_vocab(open_gguf(path)->metadata()));
}

using Mask = std::vector<std::uint32_t>;

// A model that knows nothing: any allowed token, but it likes to close what is open, more so the
// longer the text is, and short tokens.
class Writer {
 public:
  Writer(const Tokenizer& tokenizer, unsigned seed)
      : tokenizer_(tokenizer),
        random_(seed),
        closing_((static_cast<std::size_t>(tokenizer.vocab_size()) + 31) / 32),
        short_(closing_.size()),
        ends_(closing_.size()) {
    for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      const std::string bytes = tokenizer.token_bytes(id);
      const auto set = [&](Mask& mask) {
        mask[static_cast<std::size_t>(id) / 32] |= 1u << (id % 32);
      };
      if (tokenizer.is_special(id)) {
        set(ends_);
      } else if (bytes.find_first_not_of("\"}]") == std::string::npos) {
        set(closing_);
      }
      if (bytes.size() <= 4 && bytes.find_first_not_of(" \n\t\r") != std::string::npos) set(short_);
    }
  }

  std::string write(const CompiledGrammarPtr& grammar, bool& whole) {
    GrammarMatcher matcher(grammar);
    Mask mask(matcher.mask_words());
    std::string text;
    for (int step = 0; step < 600 && !matcher.is_terminated(); ++step) {
      if (!matcher.fill_mask(mask)) break;  // a vocabulary without an end token, or without a byte
      const std::int32_t id = pick(mask, step);
      if (!matcher.accept(id)) fail(ErrorCode::kBug, "mask and accept differ at {:?}", text);
      if (!matcher.is_terminated()) text += tokenizer_.token_bytes(id);
    }
    whole = matcher.is_terminated() || (matcher.is_complete() && !matcher.fill_mask(mask));
    return text;
  }

 private:
  std::int32_t pick(const Mask& mask, int step) {
    const auto chance = [&](int percent) { return static_cast<int>(random_() % 100) < percent; };
    for (const Mask* kind : {&ends_, &closing_, &short_}) {
      if (!chance(kind == &short_ ? 50 + step : 15 + step)) continue;
      if (const auto id = any_of(mask, *kind)) return *id;
    }
    return any_of(mask, mask).value();
  }

  std::optional<std::int32_t> any_of(const Mask& mask, const Mask& kind) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < mask.size(); ++i) count += std::popcount(mask[i] & kind[i]);
    if (count == 0) return std::nullopt;
    std::size_t left = random_() % count;
    for (std::size_t i = 0;; ++i) {
      std::uint32_t word = mask[i] & kind[i];
      const auto here = static_cast<std::size_t>(std::popcount(word));
      if (left >= here) {
        left -= here;
        continue;
      }
      for (; left > 0; --left) word &= word - 1;
      return static_cast<std::int32_t>(i * 32) + std::countr_zero(word);
    }
  }

  const Tokenizer& tokenizer_;
  std::mt19937 random_;
  Mask closing_, short_, ends_;
};

Grammar read_grammar(const std::string& line) {
  if (!line.starts_with('"')) return {.kind = GrammarKind::kJsonSchema, .text = line};
  return {.kind = GrammarKind::kRegex, .text = OrderedJson::parse(line).get<std::string>()};
}

OrderedJson answer(GrammarCompiler& compiler, Writer& writer, const std::string& line, int count) {
  const auto grammar = compiler.compile(read_grammar(line));
  if (!grammar.ok()) return {{"refused", grammar.error().message()}};
  OrderedJson whole = OrderedJson::array();
  OrderedJson cut = OrderedJson::array();
  for (int i = 0; i < count; ++i) {
    bool ended = false;
    const std::string text = writer.write(*grammar, ended);
    (ended ? whole : cut).push_back(text);
  }
  const auto ended = whole.size();
  whole.insert(whole.end(), cut.begin(), cut.end());
  return {{"texts", whole}, {"whole", ended}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: guided_samples VOCABULARY TEXTS SEED < schemas\n");
    return 2;
  }
  try {
    const Tokenizer tokenizer = load(argv[1]);
    GrammarCompiler compiler(tokenizer, {}, {.warm_seconds = 0});
    Writer writer(tokenizer, static_cast<unsigned>(std::stoul(argv[3])));
    for (std::string line; std::getline(std::cin, line);)
      fmt::print("{}\n", dump_json(answer(compiler, writer, line, std::stoi(argv[2]))));
  } catch (const std::exception& e) {
    fmt::print(stderr, "guided_samples: {}\n", e.what());
    return 1;
  }
  return 0;
}
