#include "llm/request_json.h"

#include "base/error.h"
#include "base/json_keys.h"
#include "llm/guided_json.h"
#include "llm/model.h"
#include "llm/request_fields.h"
#include "llm/sampling_json.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

namespace ingot {

namespace {

// Understood, and of no consequence for the answer.
constexpr std::string_view kPassive[] = {"model",  "user",           "metadata",
                                         "store",  "service_tier",   "id",
                                         "stream", "stream_options", "custom_id"};
// Of a message, and taken by most templates; one that drops these drops what every client sends.
constexpr std::string_view kOfMessage[] = {
    "role", "content", "name", "thinking", "tool_call_id", "reasoning_content", "reasoning"};
constexpr std::string_view kChatUrl = "/v1/chat/completions", kCompletionUrl = "/v1/completions";
constexpr std::string_view kEnvelope[] = {"id", "custom_id", "method", "url", "body"};

template <typename Names>
bool is_one_of(const Names& names, std::string_view key) {
  return std::ranges::find(names, key) != std::ranges::end(names);
}

// What every message of the API has. A template that misses it would render it as nothing.
void check_messages(const OrderedJson& messages, Model& model) {
  if (!messages.is_array()) refuse("[request.messages] wanted an array");
  if (messages.empty()) refuse("[request.messages] is empty, and there is nothing to answer");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const OrderedJson& message = messages[i];
    const auto has = [&](const char* key) {
      return message.contains(key) && !message.at(key).is_null();
    };
    if (!message.is_object()) refuse("[request.messages[{}]] wanted a JSON object", i);
    if (!has("role") || !message.at("role").is_string())
      refuse("[request.messages[{}].role] wanted a text, such as user", i);
    if (has("content") && !message.at("content").is_string() && !message.at("content").is_array())
      refuse("[request.messages[{}].content] wanted a text or an array of parts", i);
    if (has("tool_calls") && !message.at("tool_calls").is_array())
      refuse("[request.messages[{}].tool_calls] wanted an array", i);
    const bool is_call =
        message.at("role") == "assistant" && has("tool_calls") && !message.at("tool_calls").empty();
    if (!has("content") && !is_call) refuse("[request.messages[{}].content] is missing", i);
    for (const auto& [key, value] : message.items())
      if (!value.is_null() && !value.empty() && !is_one_of(kOfMessage, key) &&
          !model.chat_template().may_read(key))
        refuse(
            "[request.messages[{}].{}] the chat template of {} does not mention it; leave it out",
            i, key, model.info().name);
  }
}

const OrderedJson* find_field(const OrderedJson& object, std::string_view key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::vector<std::int32_t> chat_prompt(const OrderedJson& body, Model& model) {
  ChatInput input;
  const auto field = [&](const char* key) { return find_field(body, key); };
  input.messages = field("messages");
  input.tools = field("tools");
  input.documents = field("documents");
  input.variables = field("chat_template_kwargs");
  check_messages(*input.messages, model);
  if (input.tools && !input.tools->is_array()) refuse("[request.tools] wanted an array");
  if (input.variables && !input.variables->is_object())
    refuse("[request.chat_template_kwargs] wanted an object");
  if (const OrderedJson* add = field("add_generation_prompt"))
    input.add_generation_prompt = read_flag(*add, "add_generation_prompt");
  const ChatTemplate& chat_template = model.chat_template();
  if (const std::string unused = chat_template.unused(input); !unused.empty())
    refuse("[request.{}{}] the chat template of {} does not mention it; leave it out",
           body.contains(unused) ? "" : "chat_template_kwargs.", unused, model.info().name);
  return model.encode_chat(chat_template.render(input).value_or_throw());
}

std::vector<std::int32_t> completion_prompt(const OrderedJson& prompt, const Model& model) {
  const OrderedJson* one = &prompt;
  if (prompt.is_array() && !prompt.empty() && !prompt.front().is_number()) {
    if (prompt.size() != 1) refuse("[request.prompt] {} prompts; wanted one", prompt.size());
    one = &prompt.front();
  }
  if (one->is_string()) return model.encode_prompt(one->get_ref<const std::string&>());
  if (one->is_array()) return read_ids(*one, "prompt");
  refuse("[request.prompt] wanted a text or an array of token ids");
}

bool belongs_to_prompt(std::string_view key, bool chat) {
  if (!chat) return key == "prompt" || key == "prompt_token_ids";
  return key == "messages" || key == "tools" || key == "documents" ||
         key == "chat_template_kwargs" || key == "add_generation_prompt";
}

// Fields with one value, which means what Ingot does anyway. Returns false for a key that is none.
bool read_neutral(std::string_view key, const OrderedJson& value) {
  const std::pair<std::string_view, OrderedJson> neutral[] = {
      {"echo", false}, {"parallel_tool_calls", false}, {"suffix", ""}};
  for (const auto& [name, wanted] : neutral) {
    if (key != name) continue;
    if (value != wanted)
      refuse("[request.{}] {}: this Ingot takes {} only", key, dump_json(value), dump_json(wanted));
    return true;
  }
  return false;
}

Request read_request(const OrderedJson& body, Model& model) {
  if (!body.is_object()) refuse("[request] wanted a JSON object");
  const bool chat = body.contains("messages");
  if (chat + body.contains("prompt") + body.contains("prompt_token_ids") != 1)
    refuse("[request] wanted one of prompt, messages and prompt_token_ids");
  if (const OrderedJson* name = find_field(body, "model"); name && !name->is_string())
    refuse("[request.model] wanted a text");
  Request request;
  for (const auto& [key, value] : body.items()) {
    if (value.is_null() || is_one_of(kPassive, key) || belongs_to_prompt(key, chat)) continue;
    if (belongs_to_prompt(key, true)) refuse("[request.{}] belongs to a chat, with messages", key);
    if (!is_sampling_field(key) && !is_guided_field(key) && !read_neutral(key, value))
      refuse("[request.{}] this Ingot does not know the field", key);
  }
  request.sampling = sampling_from_json(body, model.default_sampling());
  request.guided = guided_from_json(body);
  const OrderedJson* stream = find_field(body, "stream");
  if (stream && read_flag(*stream, "stream") && request.sampling.beam_width > 1)
    refuse(
        "[request.stream] true: beams are known at the end of the search; wanted false with "
        "beam_width {}",
        request.sampling.beam_width);
  if (chat)
    request.prompt = chat_prompt(body, model);
  else if (body.contains("prompt"))
    request.prompt = completion_prompt(body.at("prompt"), model);
  else
    request.prompt = read_ids(body.at("prompt_token_ids"), "prompt_token_ids");
  return request;
}

// What the envelope says of its body has to be true. Throws Error{kRequest}.
void check_envelope(const OrderedJson& envelope) {
  for (const auto& [key, value] : envelope.items())
    if (!is_one_of(kEnvelope, key))
      refuse("[batch.{}] this Ingot does not know the field beside body", key);
  if (!envelope.at("body").is_object()) refuse("[batch.body] wanted a JSON object");
  if (const OrderedJson* method = find_field(envelope, "method"); method && *method != "POST")
    refuse("[batch.method] {}: wanted \"POST\"", dump_json(*method));
  const OrderedJson* url = find_field(envelope, "url");
  if (!url) return;
  if (*url != kChatUrl && *url != kCompletionUrl)
    refuse("[batch.url] {}: wanted {} or {}", dump_json(*url), kChatUrl, kCompletionUrl);
  const bool chat = envelope.at("body").contains("messages");
  if (chat != (*url == kChatUrl))
    refuse("[batch.url] {}: the body is a {}; wanted {}", dump_json(*url),
           chat ? "chat" : "completion", chat ? kChatUrl : kCompletionUrl);
}

Result<Request> request_or_error(const std::function<Request()>& read) {
  try {
    return read();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kBug) throw;
    return e;
  }
}

}  // namespace

OrderedJson parse_request(std::string_view text, std::string_view what) {
  OrderedJson json = parse_ordered_json(text, what);
  refuse_repeated_keys(text, json, what);
  return json;
}

void refuse_repeated_keys(std::string_view text, const OrderedJson& json, std::string_view what) {
  if (const std::optional<std::string> key = repeated_key(text, json))
    fail(ErrorCode::kBadInput, "[json] {}: the key {} comes twice in one object", what,
         dump_json(OrderedJson(*key)));
}

Result<Request> request_from_json(const OrderedJson& body, Model& model) {
  return request_or_error([&] { return read_request(body, model); });
}

Result<Request> request_from_batch_line(const OrderedJson& line, Model& model) {
  return request_or_error([&] {
    if (!line.is_object()) refuse("[batch] wanted a JSON object");
    if (!line.contains("body")) return read_request(line, model);
    check_envelope(line);
    return read_request(line.at("body"), model);
  });
}

namespace {

void write_positions(std::string_view before, const std::vector<TokenLogprob>& logprobs,
                     const Model& model, const TextSink& out) {
  const auto one = [&](std::int32_t id, float logprob) {
    OrderedJson json;
    if (model.has_tokenizer()) json["token"] = model.tokenizer().token_text(id);
    json["id"] = id;
    json["logprob"] = logprob;
    return dump_json(json);
  };
  for (const TokenLogprob& position : logprobs) {
    std::string json = one(position.token, position.logprob);
    json.pop_back();  // its brace
    out(before);
    out(json);
    out(",\"top\":[");
    for (std::size_t i = 0; i < position.top.size(); ++i) {
      if (i > 0) out(",");
      out(one(position.top[i].first, position.top[i].second));
    }
    out("]}");
    before = ",";
  }
  out("]");
}

}  // namespace

void write_logprobs(const std::vector<TokenLogprob>& logprobs, const Model& model,
                    const TextSink& out) {
  out("[");
  write_positions("", logprobs, model, out);
}

void write_prompt_logprobs(const std::vector<TokenLogprob>& logprobs, const Model& model,
                           const TextSink& out) {
  out("[null");
  write_positions(",", logprobs, model, out);
}

}  // namespace ingot
