#pragma once

#include "ingot/sampling_params.h"

#include <cstdint>
#include <string>

namespace ingot {

// "" or what is wrong, starting with the field's name: "top_p 1.2: wanted (0, 1]". Every field is
// looked at; ids are held against a vocabulary of `vocab`.
std::string check_sampling(const SamplingParams& params, std::int64_t vocab);

}  // namespace ingot
