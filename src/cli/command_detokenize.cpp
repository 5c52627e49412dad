#include "base/error.h"
#include "cli/options.h"
#include "cli/output.h"
#include "llm/model_text.h"

#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

struct DetokenizeOptions {
  std::string model;
  bool json = false;
  bool skip_special = false;
};

int detokenize(const DetokenizeOptions& o) {
  const auto ids = parse_ids(read_standard_input(), "stdin");
  const ModelText model = ModelText::open(o.model);
  const int vocab = model.tokenizer().vocab_size();
  for (const std::int32_t id : ids)
    if (id < 0 || id >= vocab)
      fail(ErrorCode::kRequest, "[detokenize] token {} is outside the vocabulary of {}", id, vocab);
  const std::string text = model.tokenizer().decode(ids, {.skip_special = o.skip_special});
  if (o.json)
    print_json({{"text", text}});
  else
    print(text);
  return 0;
}

}  // namespace

void declare_detokenize(Command& command) {
  auto o = std::make_shared<DetokenizeOptions>();
  command.describe("Token ids on standard input to their text, to the byte.",
                   "echo 504 1296 768 | ingot detokenize smollm2.gguf");
  command.positional("MODEL", o->model, "folder, .gguf, .ingot or hub name org/name");
  command.flag("--skip-special", o->skip_special, "leave control tokens out of the text");
  command.flag("--json", o->json, "one object: text");
  command.action([o] { return detokenize(*o); });
}

}  // namespace ingot::cli
