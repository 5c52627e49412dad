#pragma once

#include "base/json.h"
#include "base/result.h"
#include "ingot/request.h"

#include <string_view>

namespace ingot {

class Model;

// A request as the OpenAI API writes it, for batches and servers: a completion ({"prompt": text
// or ids, ...}), a chat ({"messages": [...], ...}) or bare ids ({"prompt_token_ids": [...],
// ...}), with the sampling fields of the API and of its peers (llm/sampling_json.h) and
// chat_template_kwargs. What is absent comes from the model's defaults. Error{kRequest} names the
// field; a field that would be ignored silently is refused.
Result<Request> request_from_json(const OrderedJson& body, Model& model);

// [{"token", "id", "logprob", "top": [{"token", "id", "logprob"}]}] with texts where there is a
// tokenizer.
OrderedJson logprobs_json(const std::vector<TokenLogprob>& logprobs, const Model& model);

// The same of a prompt, with null for its first token, which nothing came before.
OrderedJson prompt_logprobs_json(const std::vector<TokenLogprob>& logprobs, const Model& model);

}  // namespace ingot
