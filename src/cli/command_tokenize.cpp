#include "cli/options.h"
#include "cli/output.h"
#include "llm/model_text.h"

#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

struct TokenizeOptions {
  std::string model;
  bool json = false;
  bool no_special = false;
};

int tokenize(const TokenizeOptions& o) {
  const std::string text = read_standard_input();
  const ModelText model = ModelText::open(o.model);
  const auto ids = model.tokenizer().encode(text, {.add_special = !o.no_special});
  if (o.json) {
    print_json({{"token_ids", ids}, {"count", ids.size()}});
    return 0;
  }
  std::string line;
  for (const std::int32_t id : ids) {
    if (!line.empty()) line += ' ';
    line += std::to_string(id);
  }
  print(line + "\n");
  return 0;
}

}  // namespace

void declare_tokenize(Command& command) {
  auto o = std::make_shared<TokenizeOptions>();
  command.describe("Standard input to token ids, between spaces.",
                   "printf 'Hello, world' | ingot tokenize smollm2.gguf");
  command.positional("MODEL", o->model, "folder, .gguf, .ingot or hub name org/name");
  command.flag("--no-special", o->no_special,
               "without what the tokenizer puts before and after a text (BOS, EOS)");
  command.flag("--json", o->json, "one object: token_ids, count");
  command.action([o] { return tokenize(*o); });
}

}  // namespace ingot::cli
