#include "text/charsmap.h"
#include "text/json_fields.h"
#include "text/normalizer.h"
#include "text/utf8.h"

#include <algorithm>
#include <cstring>
#include <vector>

// SentencePiece's own normaliser, for its model files: unlike the Precompiled one of tokenizer.json
// it takes the longest match of the map and leaves user-defined symbols alone.
namespace ingot {
namespace {

class SentencePieceNormalizer : public Normalizer {
 public:
  SentencePieceNormalizer(const Json& json, std::string_view charsmap)
      : charsmap_(charsmap),
        dummy_prefix_(bool_field(json, "add_dummy_prefix", true)),
        every_part_(bool_field(json, "every_part", true)),
        remove_extra_(bool_field(json, "remove_extra_whitespaces", true)),
        suffix_(bool_field(json, "whitespace_suffix", false)),
        blank_(bool_field(json, "escape_whitespaces", true) ? "▁" : " ") {
    if (const Json* symbols = find_field(json, "symbols"))
      for (const Json& symbol : *symbols)
        if (symbol.is_string() && !symbol.get_ref<const std::string&>().empty())
          symbols_.push_back(symbol.get<std::string>());
    // Longest first, so that the first that fits is the longest.
    std::sort(symbols_.begin(), symbols_.end(),
              [](const auto& a, const auto& b) { return a.size() > b.size(); });
    for (const std::string& symbol : symbols_)
      starts_[static_cast<unsigned char>(symbol[0])] = true;
  }

  void apply(NormalizedText& text, RegexScratch&) const override {
    std::string_view in = text.text;
    std::string out;
    if (remove_extra_)
      while (!in.empty()) {
        const Step step = next(in);
        if (step.to != " ") break;
        in.remove_prefix(step.size);
      }
    if (in.empty()) {
      text.text.clear();
      return;
    }
    const bool prefix = dummy_prefix_ && (text.first || every_part_);
    if (prefix && !suffix_) out += blank_;
    bool after_blank = remove_extra_;
    while (!in.empty()) {
      const Step step = next(in);
      put(step.to, after_blank, out);
      in.remove_prefix(step.size);
    }
    if (remove_extra_)
      while (out.ends_with(blank_)) out.resize(out.size() - blank_.size());
    if (prefix && suffix_) out += blank_;
    text.text = std::move(out);
  }

 private:
  struct Step {
    std::size_t size;  // bytes of the input
    std::string_view to;
  };

  void put(std::string_view text, bool& after_blank, std::string& out) const {
    while (after_blank && text.starts_with(' ')) text.remove_prefix(1);
    if (text.empty()) return;
    for (const char c : text) {
      if (c == ' ')
        out += blank_;
      else
        out += c;
    }
    after_blank = remove_extra_ && text.ends_with(' ');
  }

  Step next(std::string_view in) const {
    if (starts_[static_cast<unsigned char>(in[0])])
      for (const std::string& symbol : symbols_)
        if (in.starts_with(symbol)) return {symbol.size(), in.substr(0, symbol.size())};
    if (const auto found = charsmap_.longest(in)) return {found->size, found->to};
    const auto size = static_cast<std::size_t>(decode_utf8(in.data(), in.data() + in.size()).size);
    return {size, in.substr(0, size)};
  }

  Charsmap charsmap_;
  bool dummy_prefix_, every_part_, remove_extra_, suffix_;
  std::string blank_;
  std::vector<std::string> symbols_;
  bool starts_[256] = {};
};

}  // namespace

std::unique_ptr<Normalizer> make_sentencepiece_normalizer(const Json& json,
                                                          std::string_view charsmap) {
  return std::make_unique<SentencePieceNormalizer>(json, charsmap);
}

}  // namespace ingot
