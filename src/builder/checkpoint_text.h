#pragma once

#include "builder/checkpoint.h"
#include "formats/gguf_metadata.h"

#include <filesystem>

namespace ingot {

// Tokenizer, chat template, generation defaults and end tokens of a folder: tokenizer.json with
// tokenizer_config.json, or tokenizer.model; chat_template.jinja before the template in
// tokenizer_config.json; generation_config.json.
void read_folder_text(const std::filesystem::path& folder, Checkpoint& checkpoint);
// The same from a GGUF file's tokenizer.* keys.
void read_gguf_text(const GgufMetadata& metadata, Checkpoint& checkpoint);

}  // namespace ingot
