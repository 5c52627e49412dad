#include "grammar/vocabulary.h"

#include <algorithm>

namespace ingot::grammar {

GrammarVocabulary::GrammarVocabulary(const Tokenizer& tokenizer,
                                     const GrammarVocabularyOptions& options) {
  tokens_.rows = options.rows > 0 ? options.rows : tokenizer.vocab_size();
  const auto end = tokenizer.end_ids();
  tokens_.end_ids.assign(end.begin(), end.end());
  tokens_.end_ids.insert(tokens_.end_ids.end(), options.end_ids.begin(), options.end_ids.end());
  std::ranges::sort(tokens_.end_ids);
  const auto repeated = std::ranges::unique(tokens_.end_ids);
  tokens_.end_ids.erase(repeated.begin(), repeated.end());
  std::erase_if(tokens_.end_ids, [&](std::int32_t id) { return id < 0 || id >= tokens_.rows; });

  const auto is_control = [&](std::int32_t id) {
    return tokenizer.is_special(id) || id == tokenizer.unk_id() || id == tokenizer.pad_id() ||
           id == tokenizer.bos_id() || std::ranges::binary_search(tokens_.end_ids, id);
  };
  tokens_.bytes.resize(static_cast<std::size_t>(std::min(tokens_.rows, tokenizer.vocab_size())));
  for (std::size_t i = 0; i < tokens_.bytes.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (!is_control(id)) tokens_.bytes[i] = tokenizer.token_bytes(id);
  }
  find_runs();
}

void GrammarVocabulary::find_runs() {
  for (std::size_t i = 0; i < tokens_.bytes.size(); ++i) {
    const std::string& bytes = tokens_.bytes[i];
    const auto first = std::ranges::find_if_not(bytes, is_json_blank);
    int run = 0;
    int longest = 0;
    for (auto it = first; it != bytes.end(); ++it) {
      run = is_json_blank(*it) ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    const auto id = static_cast<std::int32_t>(i);
    if (first != bytes.begin()) leading_.push_back({id, static_cast<int>(first - bytes.begin())});
    if (longest > 0) interior_.push_back({id, longest});
  }
  std::ranges::stable_sort(leading_, std::greater{}, &Run::length);
  std::ranges::stable_sort(interior_, std::greater{}, &Run::length);
}

}  // namespace ingot::grammar
