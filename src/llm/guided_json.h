#pragma once

#include "base/json.h"
#include "ingot/guided_decoding.h"

#include <string_view>

namespace ingot {

// What a body says about the form of the answer: OpenAI's response_format, vLLM's guided_json,
// guided_regex, guided_choice and guided_grammar, and json, json_object, regex, choice and grammar
// within its structured_outputs.
bool is_guided_field(std::string_view key);

// Throws Error{kRequest} naming the field: of another kind than wanted, or a second description.
GuidedDecoding guided_from_json(const OrderedJson& body);

}  // namespace ingot
