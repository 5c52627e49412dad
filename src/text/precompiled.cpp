#include "base/error.h"
#include "text/charsmap.h"
#include "text/normalizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <array>
#include <optional>

namespace ingot {
namespace {

// SentencePiece's map applied as the `tokenizers` library does (a grapheme cluster under six bytes
// as a whole by its shortest match, else character by character), which differs from SentencePiece.
class Precompiled : public Normalizer {
 public:
  explicit Precompiled(std::string_view blob) : map_(blob) {
    if (blob.empty())
      fail(ErrorCode::kBadInput, "[tokenizer.normalizer] precompiled_charsmap is missing");
    for (int c = 0; c < 128; ++c) {
      const char text = static_cast<char>(c);
      ascii_[static_cast<std::size_t>(c)] = transform({&text, 1});
    }
  }

  void apply(NormalizedText& text, RegexScratch&) const override {
    std::string out;
    out.reserve(text.text.size());
    const char* p = text.text.data();
    const char* end = p + text.text.size();
    while (p < end) {
      const bool ascii = (*p & 0x80) == 0;
      if (ascii && (p + 1 == end || ((p[1] & 0x80) == 0 && *p != '\r'))) {
        put(out, {p, 1}, ascii_[static_cast<std::size_t>(*p)]);
        ++p;
        continue;
      }
      const char* next = grapheme_end(p, end);
      cluster(out, {p, static_cast<std::size_t>(next - p)});
      p = next;
    }
    text.text = std::move(out);
  }

 private:
  static void put(std::string& out, std::string_view text,
                  const std::optional<std::string_view>& replaced) {
    out += replaced ? *replaced : text;
  }

  void cluster(std::string& out, std::string_view cluster) const {
    if (cluster.size() < 6) {
      if (const auto replaced = transform(cluster)) {
        out += *replaced;
        return;
      }
    }
    const char* p = cluster.data();
    const char* end = p + cluster.size();
    while (p < end) {
      const std::string_view one(p, static_cast<std::size_t>(decode_utf8(p, end).size));
      put(out, one, transform(one));
      p += one.size();
    }
  }

  std::optional<std::string_view> transform(std::string_view key) const {
    const auto found = map_.shortest(key);
    if (!found) return std::nullopt;
    return found->to;
  }

  Charsmap map_;
  std::array<std::optional<std::string_view>, 128> ascii_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(std::string_view charsmap) {
  return std::make_unique<Precompiled>(charsmap);
}

}  // namespace ingot
