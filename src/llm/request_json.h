#pragma once

#include "base/json.h"
#include "base/result.h"
#include "ingot/request.h"

#include <functional>
#include <string_view>

namespace ingot {

class Model;

// The JSON of a request, as parse_ordered_json(), where a key that comes twice is an error.
OrderedJson parse_request(std::string_view text, std::string_view what);
// The second half of it, for who wants to know whose text it is. Throws Error{kBadInput}.
void refuse_repeated_keys(std::string_view text, const OrderedJson& json, std::string_view what);

// A request as the OpenAI API writes it, for batches and servers: a completion ({"prompt": text
// or ids, ...}), a chat ({"messages": [...], ...}) or bare ids ({"prompt_token_ids": [...],
// ...}), with the sampling fields of the API and of its peers (llm/sampling_json.h) and
// chat_template_kwargs. What is absent comes from the model's defaults. Error{kRequest} names the
// field; a field that would be ignored silently is refused, so are tools, documents and variables
// that the model's template does not mention.
Result<Request> request_from_json(const OrderedJson& body, Model& model);

// The same of what may be an entry of the OpenAI Batch API: {"custom_id", "method": "POST", "url":
// "/v1/chat/completions" or "/v1/completions", "body"}.
Result<Request> request_from_batch_line(const OrderedJson& line, Model& model);

using TextSink = std::function<void(std::string_view)>;

// [{"token", "id", "logprob", "top": [{"token", "id", "logprob"}]}] with texts where there is a
// tokenizer. In small pieces: as a whole it is many times as large as what it tells.
void write_logprobs(const std::vector<TokenLogprob>& logprobs, const Model& model,
                    const TextSink& out);

// The same of a prompt, with null for its first token, which nothing came before.
void write_prompt_logprobs(const std::vector<TokenLogprob>& logprobs, const Model& model,
                           const TextSink& out);

}  // namespace ingot
