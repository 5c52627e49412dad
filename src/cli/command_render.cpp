#include "base/error.h"
#include "base/file.h"
#include "cli/options.h"
#include "cli/output.h"
#include "llm/model_text.h"
#include "llm/request_json.h"

#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

struct RenderOptions {
  std::string model;
  std::string messages;
  std::optional<std::string> tools;
  std::optional<std::string> variables;
  bool no_generation_prompt = false;
  bool json = false;
};

OrderedJson read_array(const std::string& path, const char* key) {
  OrderedJson json = parse_request(read_file(path), path);
  if (json.is_object() && json.contains(key)) json = OrderedJson(json.at(key));
  if (!json.is_array())
    fail(ErrorCode::kBadInput, "[render.{}] {}: wanted an array, or an object with `{}`", key, path,
         key);
  return json;
}

// Part of the command line, so what is wrong with it is a matter of usage.
OrderedJson read_variables(const std::string& text) {
  OrderedJson variables;
  try {
    variables = parse_request(text, "--variables");
  } catch (const Error& e) {
    fail(ErrorCode::kUsage, "{}", e.message());
  }
  if (!variables.is_object()) fail(ErrorCode::kUsage, "[usage] --variables: wanted a JSON object");
  return variables;
}

int render(const RenderOptions& o) {
  const OrderedJson messages = read_array(o.messages, "messages");
  OrderedJson tools, variables;
  ChatInput input;
  input.messages = &messages;
  input.add_generation_prompt = !o.no_generation_prompt;
  if (o.tools) {
    tools = read_array(*o.tools, "tools");
    input.tools = &tools;
  }
  if (o.variables) {
    variables = read_variables(*o.variables);
    input.variables = &variables;
  }
  ModelText model = ModelText::open(o.model);
  const ChatTemplate& chat_template = model.chat_template();
  if (const std::string unused = chat_template.unused(input); !unused.empty())
    fail(ErrorCode::kRequest, "[render.{}] the model's chat template does not mention it", unused);
  const RenderedChat chat = chat_template.render(input).value_or_throw();
  if (o.json)
    print_json({{"text", chat.text}, {"token_ids", model.encode_chat(chat)}});
  else
    print(chat.text);
  return 0;
}

}  // namespace

void declare_render(Command& command) {
  auto o = std::make_shared<RenderOptions>();
  command.describe("The text that the chat template makes of messages, to the byte.",
                   "ingot render smollm2.gguf messages.json --tools tools.json\n"
                   "messages.json:\n"
                   "  [{\"role\": \"system\", \"content\": \"Be brief.\"},\n"
                   "   {\"role\": \"user\", \"content\": \"Name three fruits.\"}]");
  command.positional("MODEL", o->model, "folder, .gguf, .ingot or hub name org/name");
  command.positional("MESSAGES", o->messages,
                     "JSON file: an array of messages, or an object with `messages`");
  command.option("--tools", o->tools, "JSON file: an array of tools");
  command.option("--variables", o->variables, "JSON object of further variables of the template");
  command.flag("--no-generation-prompt", o->no_generation_prompt,
               "without the start of the answer");
  command.flag("--json", o->json, "one object: text, token_ids");
  command.action([o] { return render(*o); });
}

}  // namespace ingot::cli
