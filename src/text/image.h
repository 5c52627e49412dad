#pragma once

#include "base/error.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The flat binary form of a tokenizer: a header with a checksum and sections of plain arrays,
// little-endian, aligned to 16 bytes, position-independent.
namespace ingot {

enum class Section : std::uint32_t {
  kPipeline,        // JSON: normalizer, pre_tokenizer, model options, decoder (nothing per token)
  kTokenOffsets,    // u32 [tokens + 1] into kTokenBytes
  kTokenBytes,      // vocabulary spellings, joined
  kTokenFlags,      // u8 [tokens]: TokenFlag
  kTokenTable,      // u32 [2^k]: id + 1 by hash of the spelling, 0 empty, linear probing
  kMerges,          // MergeSlot [n]: by hash of the pair, linear probing
  kScores,          // f64 [tokens]: Unigram
  kTrie,            // TrieNode [n]: Unigram pieces
  kAdded,           // AddedRecord [n]: added tokens
  kAddedTrie,       // TrieNode [n]: spellings looked for in the raw text; value: index in kAdded
  kNormalizedTrie,  // TrieNode [n]: spellings looked for in the normalised text
  kCharsmap,        // the Precompiled normalizer's blob
  kCount,
};
inline constexpr std::size_t kSectionCount = static_cast<std::size_t>(Section::kCount);
inline constexpr std::uint32_t kMaxTokens = 1u << 23;

enum TokenFlag : std::uint8_t {
  kPresent = 1,
  kInModel = 2,  // the model may find it in a text
  kSpecial = 4,
  kAdded = 8,
  kRespelled = 16,   // decodes as its normalised spelling, which the pipeline's JSON has
  kModelVocab = 32,  // of the model's vocabulary, also if no text may yield it
};

struct MergeSlot {
  std::uint32_t left, right;
  std::uint32_t rank;
  std::uint32_t id;  // of the joined token; kNoMerge: empty slot
};
inline constexpr std::uint32_t kNoMerge = 0xffffffffu;

struct AddedRecord {
  std::int32_t id;
  std::uint32_t flags;  // AddedFlag
};
enum AddedFlag : std::uint32_t {
  kAddedSpecial = 1,
  kAddedSingleWord = 2,
  kAddedLstrip = 4,
  kAddedRstrip = 8,
};

// Collects sections and writes the image.
class ImageWriter {
 public:
  void set(Section section, std::string bytes) {
    sections_[static_cast<std::size_t>(section)] = std::move(bytes);
  }
  template <typename T>
  void set_array(Section section, std::span<const T> values) {
    set(section, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  }
  std::vector<std::byte> finish() const;

 private:
  std::array<std::string, kSectionCount> sections_;
};

// The checksum that an image of these bytes must carry, and where it stands.
std::uint64_t image_checksum(std::span<const std::byte> image);
inline constexpr std::size_t kImageChecksumOffset = 24;

class ImageView {
 public:
  ImageView() = default;
  // Verifies header and checksum; throws Error{kBadInput}. `image` is 8-byte aligned.
  explicit ImageView(std::span<const std::byte> image);

  std::string_view bytes(Section section) const {
    return sections_[static_cast<std::size_t>(section)];
  }
  template <typename T>
  std::span<const T> array(Section section) const {
    const std::string_view text = bytes(section);
    if (text.size() % sizeof(T) != 0) fail_size(section);
    return {reinterpret_cast<const T*>(text.data()), text.size() / sizeof(T)};
  }
  std::span<const std::byte> all() const { return all_; }

 private:
  [[noreturn]] static void fail_size(Section section);

  std::span<const std::byte> all_;
  std::array<std::string_view, kSectionCount> sections_;
};

}  // namespace ingot
