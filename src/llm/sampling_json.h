#pragma once

#include "base/json.h"
#include "ingot/sampling_params.h"

namespace ingot {

// Whether `key` is one of the fields that sampling_from_json reads.
bool is_sampling_field(std::string_view key);

// The sampling fields of a request, by the names that the OpenAI API, vLLM and TensorRT-LLM give
// them; what is absent stays as in `defaults`, unless a beam search has no use for it. Throws
// Error{kRequest} naming a field that is not of its kind; ranges are check_sampling's.
SamplingParams sampling_from_json(const OrderedJson& body, SamplingParams defaults);

}  // namespace ingot
