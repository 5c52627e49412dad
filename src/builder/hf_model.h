#pragma once

#include "builder/checkpoint.h"
#include "formats/hf_config.h"

namespace ingot {

// Family and configuration of the model that a config.json describes. Throws Error{kBadInput}.
void read_hf_model(HfConfig& config, Checkpoint& checkpoint);

}  // namespace ingot
