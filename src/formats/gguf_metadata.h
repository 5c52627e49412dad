#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ingot {

enum class GgufType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kF64,
};

std::string_view gguf_type_name(GgufType type);  // "u8", ..., "text", "array"

// One value, as a view into the file.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;  // of an array; otherwise equal to type
  std::uint64_t count = 1;           // of an array
  // A number's bytes, a text's bytes; an array's elements one after another (texts each behind a
  // u64 length).
  std::span<const std::byte> bytes;
};

// The key-value part of a GGUF file. Views into the mapping: a vocabulary of 150k tokens costs
// nothing until asked for. A getter returns nothing when the key is absent and throws
// Error{kBadInput} naming file, key and type when the value is of another kind or out of range.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  explicit GgufMetadata(std::string file) : file_(std::move(file)) {}

  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const GgufValue* find(std::string_view key) const;
  // In the file's order, for reports.
  std::span<const std::pair<std::string_view, GgufValue>> entries() const { return entries_; }
  const std::string& file() const { return file_; }

  std::optional<std::int64_t> integer(std::string_view key) const;  // any integer type
  std::optional<double> number(std::string_view key) const;         // any integer or float type
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  // Arrays; a single integer counts as an array of one (head_count_kv is written both ways).
  std::optional<std::vector<std::int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<float>> floats(std::string_view key) const;
  std::optional<std::vector<bool>> booleans(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;
  // The raw elements of a u8 or i8 array (precompiled_charsmap).
  std::optional<std::span<const std::byte>> raw(std::string_view key) const;

  // The same, required: throws Error{kBadInput} "[gguf.<key>] missing in <file>".
  std::int64_t require_integer(std::string_view key) const;
  double require_number(std::string_view key) const;
  std::string_view require_text(std::string_view key) const;
  std::vector<std::string_view> require_texts(std::string_view key) const;

  // False when the key is already there.
  bool add(std::string_view key, const GgufValue& value);

 private:
  [[noreturn]] void wrong_type(std::string_view key, const GgufValue& value,
                               std::string_view wanted) const;
  [[noreturn]] void missing(std::string_view key) const;
  std::int64_t integer_at(std::string_view key, const GgufValue& value, std::uint64_t index,
                          std::string_view wanted) const;

  std::string file_;
  std::vector<std::pair<std::string_view, GgufValue>> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

}  // namespace ingot
