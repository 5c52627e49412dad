#include "cli/chat.h"

#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/output.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

namespace ingot::cli {

namespace {

// A line beside the conversation.
void notice(const std::string& text) {
  fmt::print(stderr, "({})\n", text);
}

// The conversation, kept within the context: old turns go when a new one needs their room.
class Conversation {
 public:
  Conversation(Model& model, const SamplingParams& params, const std::string& system)
      : model_(model), params_(params), head_(first_messages(system)) {
    context_ = model.context();
    // A long answer must not push out what it answers to.
    wanted_room_ = context_ / 4;
    if (params.max_tokens > 0)
      wanted_room_ = std::min(wanted_room_, std::int64_t{params.max_tokens});
    wanted_room_ = std::max(wanted_room_, std::int64_t{1});
  }

  // The turn is kept unless this throws.
  void take_turn(const std::string& text, const std::function<void()>& between) {
    Prompt prompt = fit(text);
    if (prompt.dropped > 0)
      notice(fmt::format(
          "the context of {} tokens is full: the oldest {} left out", context_,
          prompt.dropped == 1 ? "turn is" : fmt::format("{} turns are", prompt.dropped)));
    const OutputEvent said =
        answer(model_, {.prompt = std::move(prompt.ids), .sampling = params_}, true, between);
    turns_.erase(turns_.begin(), turns_.begin() + prompt.dropped);
    turns_.push_back({text, said.text});
    const std::int64_t asked = said.usage.prompt_tokens, made = said.usage.completion_tokens;
    if (said.finish == FinishReason::kLength && asked + made >= context_ &&
        made != params_.max_tokens)
      notice(fmt::format("the answer is cut: the context of {} tokens is full", context_));
  }

 private:
  struct Turn {
    std::string user;
    std::string assistant;
  };
  struct Prompt {
    std::vector<std::int32_t> ids;
    std::ptrdiff_t dropped = 0;
  };

  std::vector<std::int32_t> encode(std::ptrdiff_t dropped, const std::string& text) {
    OrderedJson messages = head_;
    for (auto turn = turns_.begin() + dropped; turn != turns_.end(); ++turn) {
      messages.push_back({{"role", "user"}, {"content", turn->user}});
      messages.push_back({{"role", "assistant"}, {"content", turn->assistant}});
    }
    messages.push_back({{"role", "user"}, {"content", text}});
    return encode_messages(model_, messages);
  }

  // The longest end of the conversation that leaves room for an answer; a message that is long
  // itself goes alone, with what room there is.
  Prompt fit(const std::string& text) {
    const auto turns = static_cast<std::ptrdiff_t>(turns_.size());
    Prompt prompt;
    for (;; ++prompt.dropped) {
      prompt.ids = encode(prompt.dropped, text);
      const std::int64_t room = context_ - static_cast<std::int64_t>(prompt.ids.size());
      if (room >= wanted_room_ || (prompt.dropped == turns && room > 0)) return prompt;
      if (prompt.dropped == turns)
        fail(ErrorCode::kRequest,
             "[chat.message] takes {} tokens with the template{}; the context holds {} with room "
             "for one of the answer: say it shorter",
             prompt.ids.size(), head_.empty() ? "" : " and the system message", context_);
    }
  }

  Model& model_;
  SamplingParams params_;
  OrderedJson head_;
  std::vector<Turn> turns_;
  std::int64_t context_ = 0;
  std::int64_t wanted_room_ = 0;
};

}  // namespace

OutputEvent answer(Model& model, Request request, bool stream,
                   const std::function<void()>& between) {
  OutputEvent last = model.generate(std::move(request), [&](const OutputEvent& event) {
    if (stream && !event.text.empty()) print(event.text);
    if (between) between();
    return !interrupted();
  });
  if (last.finish == FinishReason::kError) throw error_of(last);
  if (stream && (last.text.empty() || last.text.back() != '\n')) print("\n");
  return last;
}

std::vector<std::int32_t> encode_messages(Model& model, const OrderedJson& messages) {
  ChatInput input;
  input.messages = &messages;
  return model.encode_chat(model.chat_template().render(input).value_or_throw());
}

OrderedJson first_messages(const std::string& system) {
  OrderedJson messages = OrderedJson::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  return messages;
}

void chat(Model& model, const SamplingParams& params, const std::string& system) {
  model.chat_template();  // what is wrong with it is told before anybody types
  stay_when_interrupted();
  Conversation conversation(model, params, system);
  LineEditor editor;
  while (const std::optional<std::string> line = editor.ask()) {
    try {
      conversation.take_turn(*line, [&] { editor.take_typed(); });
    } catch (const Error& e) {
      if (e.code() != ErrorCode::kRequest) throw;
      fmt::print(stderr, "error: {}\n", e.message());
    }
    clear_interrupt();
  }
  model.background_check().wait(throw_if_interrupted);
}

}  // namespace ingot::cli
