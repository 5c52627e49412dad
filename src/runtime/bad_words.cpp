#include "runtime/bad_words.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

void resolve_bad_words(SamplingParams& params, const Tokenizer& tokenizer) {
  auto& all = params.bad_token_ids;
  for (const std::string& word : params.bad_words) {
    for (const char* before : {"", " "}) {
      std::vector<std::int32_t> ids =
          tokenizer.encode(before + word, {.add_special = false, .parse_special = false});
      if (!ids.empty() && std::find(all.begin(), all.end(), ids) == all.end())
        all.push_back(std::move(ids));
    }
  }
  params.bad_words.clear();
}

}  // namespace ingot
