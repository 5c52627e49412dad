#pragma once

#include "ingot/sampling_params.h"
#include "llm/model.h"

#include <functional>
#include <string>

namespace ingot::cli {

// Streams the answer to standard output if `stream`; Ctrl-C stops it. `between` is called with each
// step.
OutputEvent answer(Model& model, Request request, bool stream,
                   const std::function<void()>& between = {});

// Ids of messages by the model's template.
std::vector<std::int32_t> encode_messages(Model& model, const OrderedJson& messages);

// The messages before the user's first: the system message, if there is one.
OrderedJson first_messages(const std::string& system);

// Asks and answers on the terminal until Ctrl-D. Throws Error{kBadInput} before the first prompt
// when the model has no usable chat template.
void chat(Model& model, const SamplingParams& params, const std::string& system);

}  // namespace ingot::cli
