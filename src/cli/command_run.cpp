#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
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

OrderedJson first_messages(const RunOptions& o) {
  OrderedJson messages = OrderedJson::array();
  if (!o.system.empty()) messages.push_back({{"role", "system"}, {"content", o.system}});
  return messages;
}

std::vector<std::int32_t> encode_messages(Model& model, const OrderedJson& messages) {
  ChatInput input;
  input.messages = &messages;
  return model.encode_chat(model.chat_template().render(input).value_or_throw());
}

void print_answer(const OutputEvent& answer, std::uint64_t seed, double open_s) {
  const std::int64_t made = answer.usage.completion_tokens;
  const double decode_s = answer.timing.total - answer.timing.first_token;
  const double rate = made > 1 && decode_s > 0 ? static_cast<double>(made - 1) / decode_s : 0;
  print_json({{"text", answer.text},
              {"token_ids", answer.tokens},
              {"finish_reason", to_string(answer.finish)},
              {"usage",
               {{"prompt_tokens", answer.usage.prompt_tokens},
                {"completion_tokens", made},
                {"total_tokens", answer.usage.prompt_tokens + made}}},
              {"timing",
               {{"open_s", open_s},
                {"first_token_s", answer.timing.first_token},
                {"total_s", answer.timing.total},
                {"decode_tokens_per_s", rate}}},
              {"seed", seed}});
}

// Streams to standard output unless the answer is wanted as JSON; Ctrl-C stops it.
OutputEvent answer(Model& model, Request request, bool stream) {
  OutputEvent last = model.generate(std::move(request), [&](const OutputEvent& event) {
    if (stream && !event.text.empty()) print(event.text);
    return !interrupted();
  });
  if (last.finish == FinishReason::kError) throw error_of(last);
  if (stream && (last.text.empty() || last.text.back() != '\n')) print("\n");
  return last;
}

// A line of the user's; nothing at the end of input.
std::optional<std::string> ask() {
  while (true) {
    std::fputs("> ", stderr);
    if (!wait_for_input()) {
      clear_interrupt();
      std::fputs("\n(Ctrl-D leaves)\n", stderr);
      continue;
    }
    // A terminal gives a line at a time, so none waits in the stream's buffer.
    std::string line;
    if (std::getline(std::cin, line)) {
      if (line.find_first_not_of(" \t") != std::string::npos) return line;
    } else if (interrupted()) {  // while the line was read
      std::cin.clear();
      std::clearerr(stdin);
    } else {
      return std::nullopt;
    }
  }
}

int chat(Model& model, const RunOptions& o) {
  SamplingParams params = o.sampling.over(model.default_sampling());
  OrderedJson messages = first_messages(o);
  while (const std::optional<std::string> line = ask()) {
    messages.push_back({{"role", "user"}, {"content", *line}});
    try {
      const OutputEvent said =
          answer(model, {.prompt = encode_messages(model, messages), .sampling = params}, true);
      messages.push_back({{"role", "assistant"}, {"content", said.text}});
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kRequest) throw;
      messages.erase(messages.size() - 1);
      std::fprintf(stderr, "error: %s\n", e.message().c_str());
    }
    clear_interrupt();
  }
  std::fputs("\n", stderr);
  model.background_check().wait(throw_if_interrupted);
  return 0;
}

int run_once(Model& model, const RunOptions& o, const std::string& text) {
  Request request{.prompt = {}, .sampling = o.sampling.over(model.default_sampling())};
  const std::uint64_t seed = *request.sampling.seed;
  if (o.chat) {
    OrderedJson messages = first_messages(o);
    messages.push_back({{"role", "user"}, {"content", text}});
    request.prompt = encode_messages(model, messages);
  } else {
    request.prompt = model.encode_prompt(text);
  }
  const OutputEvent last = answer(model, std::move(request), !o.json);
  throw_if_interrupted();
  model.background_check().wait(throw_if_interrupted);
  if (o.json) print_answer(last, seed, model.open_seconds());
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
  return chats ? chat(*model, o) : run_once(*model, o, text);
}

}  // namespace

void declare_run(Command& command) {
  auto o = std::make_shared<RunOptions>();
  command.describe(
      "Answers a prompt (-p or standard input); on a terminal without -p it chats.\n"
      "The engine of a checkpoint is built at first use and kept in the cache.",
      "ingot run smollm2.gguf --chat -p 'Name three fruits.' --max-tokens 64");
  o->model.declare(command);
  command.option("-p,--prompt", o->prompt, "the prompt");
  command.flag("--chat", o->chat, "put the prompt into the model's chat template");
  command.option("--system", o->system, "system message of a chat");
  o->sampling.declare(command);
  command.flag("--json", o->json, "one JSON object on standard output, when the answer is whole");
  command.action([o] { return run(*o); });
}

}  // namespace ingot::cli
