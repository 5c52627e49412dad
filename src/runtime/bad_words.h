#pragma once

#include "ingot/sampling_params.h"
#include "text/tokenizer.h"

namespace ingot {

// The ids of params.bad_words join params.bad_token_ids: of each text as it stands, and of it with
// a blank before, as in the middle of a sentence.
void resolve_bad_words(SamplingParams& params, const Tokenizer& tokenizer);

}  // namespace ingot
