#include "base/error.h"
#include "text/normalizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <array>
#include <cstring>
#include <optional>

namespace ingot {
namespace {

// SentencePiece's precompiled_charsmap: u32 size of a Darts double array in bytes, the array, then
// zero-terminated replacements. Applied as the `tokenizers` library does (a grapheme cluster under
// six bytes as a whole by its shortest match, else character by character), which differs from
// SentencePiece itself.
class Precompiled : public Normalizer {
 public:
  explicit Precompiled(std::string_view blob) {
    std::uint32_t size = 0;
    if (blob.size() < 4) broken();
    std::memcpy(&size, blob.data(), 4);
    if (size % 4 != 0 || size < 4 || size > blob.size() - 4) broken();
    units_ = blob.substr(4, size);
    replacements_ = blob.substr(4 + size);
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
  [[noreturn]] static void broken() {
    fail(ErrorCode::kBadInput, "[tokenizer.normalizer] precompiled_charsmap is broken");
  }

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

  std::optional<std::uint32_t> unit(std::uint32_t at) const {
    if (at >= units_.size() / 4) return std::nullopt;
    std::uint32_t value;
    std::memcpy(&value, units_.data() + std::size_t{at} * 4, 4);
    return value;
  }
  static std::uint32_t offset_of(std::uint32_t unit) {
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
  }

  // The replacement of the shortest prefix that the map has.
  std::optional<std::string_view> transform(std::string_view key) const {
    std::uint32_t at = offset_of(*unit(0));
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      at ^= byte;
      const auto value = unit(at);
      if (!value || (*value & ((1u << 31) | 0xff)) != byte) return std::nullopt;
      at ^= offset_of(*value);
      if (((*value >> 8) & 1) == 0) continue;
      const auto leaf = unit(at);
      if (!leaf) return std::nullopt;
      const std::uint32_t index = *leaf & 0x7fffffffu;
      if (index >= replacements_.size()) return std::string_view();
      const std::string_view rest = replacements_.substr(index);
      return rest.substr(0, rest.find('\0'));
    }
    return std::nullopt;
  }

  std::string_view units_;
  std::string_view replacements_;
  std::array<std::optional<std::string_view>, 128> ascii_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(std::string_view charsmap) {
  return std::make_unique<Precompiled>(charsmap);
}

}  // namespace ingot
