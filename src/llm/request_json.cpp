#include "llm/request_json.h"

#include "base/error.h"
#include "llm/model.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace ingot {

namespace {

// Understood, and of no consequence for the answer.
constexpr std::string_view kPassive[] = {"model",  "user",           "metadata",
                                         "store",  "service_tier",   "id",
                                         "stream", "stream_options", "custom_id"};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorCode::kRequest, format, std::forward<Args>(args)...);
}

double number(const OrderedJson& value, std::string_view key) {
  if (!value.is_number()) refuse("[request.{}] wanted a number", key);
  const double x = value.get<double>();
  if (!std::isfinite(x)) refuse("[request.{}] not a finite number", key);
  return x;
}

std::int32_t count(const OrderedJson& value, std::string_view key, std::int64_t low = 0) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (!value.is_number_integer()) refuse("[request.{}] wanted a whole number", key);
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= kMax
                                               : value.get<std::int64_t>() >= 0;
  if (!fits || value.get<std::int64_t>() < low)
    refuse("[request.{}] {}: wanted {} to {}", key, value.dump(), low, kMax);
  return value.get<std::int32_t>();
}

bool flag(const OrderedJson& value, std::string_view key) {
  if (!value.is_boolean()) refuse("[request.{}] wanted true or false", key);
  return value.get<bool>();
}

std::vector<std::int32_t> ids(const OrderedJson& value, std::string_view key) {
  if (!value.is_array()) refuse("[request.{}] wanted an array of token ids", key);
  std::vector<std::int32_t> out;
  out.reserve(value.size());
  for (const OrderedJson& id : value) out.push_back(count(id, key));
  return out;
}

std::vector<std::string> stops(const OrderedJson& value) {
  std::vector<std::string> out;
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) refuse("[request.stop] wanted a text or an array of texts");
  for (const OrderedJson& one : value) {
    if (!one.is_string()) refuse("[request.stop] wanted a text or an array of texts");
    out.push_back(one.get<std::string>());
  }
  return out;
}

// A completion's `logprobs` is the number of alternatives; a chat's says whether, and top_logprobs
// how many.
void read_logprobs(const OrderedJson& body, SamplingParams& p) {
  const auto it = body.find("logprobs");
  if (it != body.end() && it->is_number())
    p.logprobs = count(*it, "logprobs");
  else if (it != body.end() && !it->is_null() && flag(*it, "logprobs"))
    p.logprobs = 0;
  const auto top = body.find("top_logprobs");
  if (top == body.end() || top->is_null()) return;
  if (p.logprobs < 0) refuse("[request.top_logprobs] needs logprobs: true");
  p.logprobs = count(*top, "top_logprobs");
}

// Returns false for a key that is no sampling field.
bool read_sampling(std::string_view key, const OrderedJson& value, SamplingParams& p) {
  const std::pair<std::string_view, double*> numbers[] = {
      {"temperature", &p.temperature},
      {"top_p", &p.top_p},
      {"min_p", &p.min_p},
      {"repetition_penalty", &p.repetition_penalty},
      {"presence_penalty", &p.presence_penalty},
      {"frequency_penalty", &p.frequency_penalty}};
  for (const auto& [name, to] : numbers)
    if (key == name) return *to = number(value, key), true;
  for (const std::string_view name : {"max_tokens", "max_completion_tokens"})
    if (key == name) return p.max_tokens = count(value, key, 1), true;
  const std::pair<std::string_view, std::int32_t*> counts[] = {{"top_k", &p.top_k},
                                                               {"min_tokens", &p.min_tokens}};
  for (const auto& [name, to] : counts)
    if (key == name) return *to = count(value, key), true;
  if (key == "ignore_eos") return p.ignore_eos = flag(value, key), true;
  if (key == "stop") return p.stop = stops(value), true;
  if (key == "stop_token_ids") return p.stop_token_ids = ids(value, key), true;
  if (key == "logprobs" || key == "top_logprobs") return true;  // read_logprobs
  if (key == "seed") {
    if (!value.is_number_unsigned())
      refuse("[request.seed] {}: wanted a whole number, 0 to {}", dump_json(value),
             std::numeric_limits<std::uint64_t>::max());
    p.seed = value.get<std::uint64_t>();
    return true;
  }
  return false;
}

// What every message of the API has. A template that misses it would render it as nothing.
void check_messages(const OrderedJson& messages) {
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
    const bool is_call = message.at("role") == "assistant" && has("tool_calls");
    if (!has("content") && !is_call) refuse("[request.messages[{}].content] is missing", i);
  }
}

std::vector<std::int32_t> chat_prompt(const OrderedJson& body, Model& model) {
  ChatInput input;
  const auto field = [&](const char* key) {
    const auto it = body.find(key);
    return it == body.end() || it->is_null() ? nullptr : &*it;
  };
  input.messages = field("messages");
  input.tools = field("tools");
  input.documents = field("documents");
  input.variables = field("chat_template_kwargs");
  check_messages(*input.messages);
  if (input.tools && !input.tools->is_array()) refuse("[request.tools] wanted an array");
  if (input.variables && !input.variables->is_object())
    refuse("[request.chat_template_kwargs] wanted an object");
  if (const OrderedJson* add = field("add_generation_prompt"))
    input.add_generation_prompt = flag(*add, "add_generation_prompt");
  return model.encode_chat(model.chat_template().render(input).value_or_throw());
}

std::vector<std::int32_t> completion_prompt(const OrderedJson& prompt, const Model& model) {
  const OrderedJson* one = &prompt;
  if (prompt.is_array() && !prompt.empty() && !prompt.front().is_number()) {
    if (prompt.size() != 1) refuse("[request.prompt] {} prompts; wanted one", prompt.size());
    one = &prompt.front();
  }
  if (one->is_string()) return model.encode_prompt(one->get_ref<const std::string&>());
  if (one->is_array()) return ids(*one, "prompt");
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
      {"n", 1},
      {"best_of", 1},
      {"echo", false},
      {"parallel_tool_calls", false},
      {"logit_bias", OrderedJson::object()},
      {"suffix", ""},
      {"response_format", {{"type", "text"}}}};
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
  Request request{.prompt = {}, .sampling = model.default_sampling()};
  for (const auto& [key, value] : body.items()) {
    const bool passive =
        std::find(std::begin(kPassive), std::end(kPassive), key) != std::end(kPassive);
    if (passive || value.is_null() || belongs_to_prompt(key, chat)) continue;
    if (!read_neutral(key, value) && !read_sampling(key, value, request.sampling))
      refuse("[request.{}] this Ingot does not know the field", key);
  }
  read_logprobs(body, request.sampling);
  if (chat)
    request.prompt = chat_prompt(body, model);
  else if (body.contains("prompt"))
    request.prompt = completion_prompt(body.at("prompt"), model);
  else
    request.prompt = ids(body.at("prompt_token_ids"), "prompt_token_ids");
  return request;
}

}  // namespace

Result<Request> request_from_json(const OrderedJson& body, Model& model) {
  try {
    return read_request(body, model);
  } catch (const Error& e) {
    if (e.code() == ErrorCode::kBug) throw;
    return e;
  }
}

OrderedJson logprobs_json(const std::vector<TokenLogprob>& logprobs, const Model& model) {
  const auto one = [&](std::int32_t id, float logprob) {
    OrderedJson json;
    if (model.has_tokenizer()) json["token"] = model.tokenizer().token_text(id);
    json["id"] = id;
    json["logprob"] = logprob;
    return json;
  };
  OrderedJson out = OrderedJson::array();
  for (const TokenLogprob& position : logprobs) {
    OrderedJson json = one(position.token, position.logprob);
    json["top"] = OrderedJson::array();
    for (const auto& [id, logprob] : position.top) json["top"].push_back(one(id, logprob));
    out.push_back(std::move(json));
  }
  return out;
}

}  // namespace ingot
