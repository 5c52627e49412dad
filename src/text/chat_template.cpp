#include "text/chat_template.h"

#include "base/error.h"
#include "text/jinja_json.h"
#include "text/jinja_parser.h"
#include "text/jinja_render.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ingot {

namespace {

constexpr std::string_view kMarker = "INGOT-PROBE-7f3a";

// Letters that templates may build control tokens from, and that forge none alone.
bool is_plain_word(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
}

bool is_foreign(const OrderedJson& value) {
  return !value.is_string() || !is_plain_word(value.get_ref<const std::string&>());
}

jinja::Value message_value(jinja::Budget& budget, const OrderedJson& message) {
  auto out = std::make_shared<jinja::Dict>(budget);
  for (const auto& [key, value] : message.items()) {
    const bool foreign = key != "role" || is_foreign(value);
    out->set(jinja::make_string(budget, key, true), jinja::from_json(budget, value, foreign));
  }
  return jinja::DictPtr(std::move(out));
}

// Null members go; reasoning goes by every name that templates read.
OrderedJson normalise_message(const OrderedJson& message) {
  OrderedJson out = OrderedJson::object();
  const OrderedJson* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto at = message.find(name);
    if (!reasoning && at != message.end() && !at->is_null()) reasoning = &*at;
  }
  if (reasoning && !(message.contains("thinking") && !message["thinking"].is_null()))
    out["thinking"] = *reasoning;
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) out[key] = value;
  if (reasoning) out["reasoning_content"] = *reasoning;
  return out;
}

std::string_view role_of(const OrderedJson& message) {
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string()) return {};
  return role->get_ref<const std::string&>();
}

// All texts of a list of parts; fails on a part that is no text.
std::string join_parts(const OrderedJson& parts) {
  std::string out;
  bool first = true;
  for (const auto& part : parts) {
    const OrderedJson* text = &part;
    if (part.is_object()) {
      const auto type = part.find("type");
      if (type != part.end() && type->is_string() && *type != "text" && *type != "input_text" &&
          *type != "output_text" && *type != "refusal")
        fail(ErrorCode::kRequest,
             "[chat.content] a content part of type '{}': this model's chat template takes text "
             "only",
             type->get_ref<const std::string&>());
      const auto found = part.find("text");
      text = found == part.end() ? nullptr : &*found;
    }
    if (!text || !text->is_string())
      fail(ErrorCode::kRequest, "[chat.content] a content part without text");
    if (!first) out += '\n';
    first = false;
    out += text->get_ref<const std::string&>();
  }
  return out;
}

OrderedJson text_part(const OrderedJson& text) {
  OrderedJson part = OrderedJson::object();
  part["type"] = "text";
  part["text"] = text;
  return OrderedJson::array({std::move(part)});
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, ChatTemplateOptions options) {
  ChatTemplate out;
  out.program_ = jinja::parse_program(source);
  out.source_ = source;
  out.options_ = std::move(options);
  out.find_content_shapes();
  return out;
}

bool ChatTemplate::mentions(std::string_view variable) const {
  return program_->find_name(variable) >= 0;
}

bool ChatTemplate::may_read(std::string_view member) const {
  const auto holds = [&](std::string_view word) { return source_.find(word) != source_.npos; };
  return holds(member) || holds("tojson") || holds("items");
}

std::string ChatTemplate::unused(const ChatInput& input) const {
  const auto dropped = [&](const OrderedJson* json, const char* name) {
    return json && !json->empty() && !mentions(name);
  };
  if (dropped(input.tools, "tools")) return "tools";
  if (dropped(input.documents, "documents")) return "documents";
  if (input.variables && input.variables->is_object())
    for (const auto& [name, value] : input.variables->items())
      if (!mentions(name)) return name;
  return {};
}

const ChatTemplate::Accepts& ChatTemplate::accepts(std::string_view role) const {
  if (role == "system" || role == "developer") return accepts_[kSystem];
  if (role == "assistant") return accepts_[kAssistant];
  if (role == "tool" || role == "function") return accepts_[kTool];
  return accepts_[kUser];
}

OrderedJson ChatTemplate::shaped(const OrderedJson& message) const {
  if (!message.is_object()) fail(ErrorCode::kRequest, "[chat.messages] a message is no object");
  OrderedJson out = normalise_message(message);
  const auto content = out.find("content");
  if (content == out.end()) return out;
  const Accepts& shape = accepts(role_of(out));
  if (content->is_string() && !shape.text && shape.parts) *content = text_part(*content);
  if (content->is_array() && !shape.parts && shape.text) *content = join_parts(*content);
  return out;
}

Result<RenderedChat> ChatTemplate::render(const ChatInput& input) const {
  if (!input.messages || !input.messages->is_array())
    return Error(ErrorCode::kRequest, "[chat.messages] messages must be an array");
  try {
    OrderedJson messages = OrderedJson::array();
    for (const auto& message : *input.messages) messages.push_back(shaped(message));
    ChatInput ready = input;
    ready.messages = &messages;
    return render_messages(ready, {});
  } catch (const Error& error) {
    return error;
  }
}

Result<RenderedChat> ChatTemplate::render_messages(const ChatInput& input,
                                                   const jinja::Limits& limits) const {
  const auto variables = [&](jinja::Budget& budget) {
    jinja::Variables out;
    for (const auto& [name, token] : options_.special_tokens)
      out.emplace_back(name, jinja::make_string(budget, token));
    std::vector<jinja::Value> messages;
    for (const auto& message : *input.messages) messages.push_back(message_value(budget, message));
    out.emplace_back("messages", jinja::make_list(budget, std::move(messages)));
    const auto data = [&](const OrderedJson* json) {
      return json ? jinja::from_json(budget, *json, true) : jinja::Value(jinja::None{});
    };
    out.emplace_back("tools", data(input.tools));
    out.emplace_back("documents", data(input.documents));
    out.emplace_back("add_generation_prompt", input.add_generation_prompt);
    if (input.variables && input.variables->is_object())
      for (const auto& [name, value] : input.variables->items())
        out.emplace_back(name, jinja::from_json(budget, value, is_foreign(value)));
    return out;
  };
  auto rendered = jinja::render_program(
      *program_, variables, {.limits = limits, .now = input.now.value_or(std::time(nullptr))});
  if (!rendered && rendered.error().code() == ErrorCode::kRequest)
    return Error(ErrorCode::kRequest, std::string(kTemplateRefusal) + rendered.error().message());
  if (!rendered) return rendered.error();
  RenderedChat out{.text = std::move(rendered->text)};
  for (const auto& [begin, end] : rendered->foreign) out.from_request.push_back({begin, end});
  return out;
}

// A conversation in which a message of `role` carries the marker.
OrderedJson ChatTemplate::trial(Role role, bool parts) const {
  const auto message = [](std::string_view name, std::string_view text, bool as_parts) {
    OrderedJson out = OrderedJson::object();
    out["role"] = name;
    out["content"] = text;
    if (as_parts) out["content"] = text_part(out["content"]);
    return out;
  };
  // The other messages take the shape that works for a user's.
  const bool filler = role == kUser ? parts : !accepts_[kUser].text;
  OrderedJson out = OrderedJson::array();
  if (role == kSystem) {
    out.push_back(message("system", kMarker, parts));
  }
  out.push_back(message("user", role == kUser ? kMarker : "hi", role == kUser ? parts : filler));
  if (role == kAssistant) {
    out.push_back(message("assistant", kMarker, parts));
  } else if (role == kTool) {
    OrderedJson call = message("assistant", "", filler);
    call["tool_calls"] = parse_ordered_json(
        R"([{"id": "call00001", "type": "function",
             "function": {"name": "f", "arguments": {"a": "b"}}}])",
        "trial");
    out.push_back(std::move(call));
    OrderedJson answer = message("tool", kMarker, parts);
    answer["name"] = "f";
    answer["tool_call_id"] = "call00001";
    out.push_back(std::move(answer));
  }
  return out;
}

// Whether content of this shape reaches the prompt as text, and not as a printed list.
bool ChatTemplate::shows(Role role, bool parts) const {
  const OrderedJson messages = trial(role, parts);
  jinja::Limits limits;
  limits.max_output_bytes = std::size_t{4} << 20;
  limits.max_memory_bytes = std::size_t{32} << 20;
  limits.max_work = 4'000'000;
  const auto rendered = render_messages(
      {.messages = &messages, .add_generation_prompt = role != kAssistant, .now = 0}, limits);
  if (!rendered) return false;
  const std::string& text = rendered->text;
  return text.find(kMarker) != std::string::npos &&
         text.find("'type': 'text'") == std::string::npos &&
         text.find("\"type\": \"text\"") == std::string::npos;
}

ChatTemplate::Accepts ChatTemplate::try_shapes(Role role) const {
  const Accepts found{.text = shows(role, false), .parts = shows(role, true)};
  // Neither was shown: the trial does not fit this template, so it says nothing.
  if (!found.text && !found.parts) return role == kUser ? Accepts{} : accepts_[kUser];
  return found;
}

void ChatTemplate::find_content_shapes() {
  accepts_[kUser] = try_shapes(kUser);
  for (const Role role : {kSystem, kAssistant, kTool}) accepts_[role] = try_shapes(role);
}

}  // namespace ingot
