#include "base/error.h"
#include "cli/chat.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"

#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

struct RunOptions {
  ModelOptions model;
  SamplingOptions sampling;
  std::optional<std::string> prompt;
  std::string system;
  bool chat = false;
  bool json = false;
};

void print_answer(const OutputEvent& answer, std::uint64_t seed, Model& model) {
  const std::int64_t made = answer.usage.completion_tokens;
  const double decode_s = answer.timing.total - answer.timing.first_token;
  const double rate = made > 1 && decode_s > 0 ? static_cast<double>(made - 1) / decode_s : 0;
  print_json({{"text", answer.text},
              {"token_ids", answer.tokens},
              {"finish_reason", to_string(answer.finish)},
              {"usage",
               {{"prompt_tokens", answer.usage.prompt_tokens},
                {"completion_tokens", made},
                {"total_tokens", answer.usage.prompt_tokens + made},
                {"cached_tokens", answer.usage.cached_tokens},
                {"drafted_tokens", answer.usage.drafted_tokens},
                {"accepted_drafts", answer.usage.accepted_drafts}}},
              {"timing",
               {{"open_s", model.open_seconds()},
                {"first_token_s", answer.timing.first_token},
                {"total_s", answer.timing.total},
                {"decode_tokens_per_s", rate}}},
              {"seed", seed},
              {"device", model.device().info().description}});
}

int run_once(Model& model, const RunOptions& o, const std::string& text) {
  Request request{.prompt = {}, .sampling = o.sampling.over(model.default_sampling())};
  const std::uint64_t seed = *request.sampling.seed;
  if (o.chat) {
    OrderedJson messages = first_messages(o.system);
    messages.push_back({{"role", "user"}, {"content", text}});
    request.prompt = encode_messages(model, messages);
  } else {
    request.prompt = model.encode_prompt(text);
  }
  const OutputEvent last = answer(model, std::move(request), !o.json);
  throw_if_interrupted();
  model.background_check().wait(throw_if_interrupted);
  if (o.json) print_answer(last, seed, model);
  return 0;
}

int run(const RunOptions& o) {
  const bool chats = !o.prompt && input_is_terminal();
  if (chats && o.json)
    fail(ErrorCode::kUsage, "[usage] --json needs a prompt: give -p or standard input");
  if (!o.system.empty() && !o.chat && !chats)
    fail(ErrorCode::kUsage, "[usage] --system belongs to a chat: add --chat");
  o.sampling.check();  // before any work
  std::string text;
  if (!chats) text = o.prompt ? *o.prompt : read_standard_input();
  // One answer at a time: the memory of a long context is paid for as it grows.
  const auto model =
      open_model(o.model, 1, [](OpenOptions& options) { options.memory_present = false; });
  if (!chats) return run_once(*model, o, text);
  chat(*model, o.sampling.over(model->default_sampling()), o.system);
  return 0;
}

}  // namespace

void declare_run(Command& command) {
  auto o = std::make_shared<RunOptions>();
  command.describe(
      "Answers a prompt (-p or standard input); on a terminal without -p it chats.\n"
      "The engine of a checkpoint is built at first use and kept in the cache.",
      "ingot run smollm2.gguf --chat -p 'Name three fruits.' --max-tokens 64");
  o->model.declare(command);
  command.option(
      "-p,--prompt", o->prompt,
      "the prompt; an empty one is what the tokenizer puts before any text (BOS), and an\n"
      "error where that is nothing");
  command.flag("--chat", o->chat, "put the prompt into the model's chat template");
  command.option("--system", o->system, "system message of a chat");
  o->sampling.declare(command);
  command.flag("--json", o->json, "one JSON object on standard output, when the answer is whole");
  command.action([o] { return run(*o); });
}

}  // namespace ingot::cli
