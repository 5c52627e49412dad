#include "formats/gguf_metadata.h"

#include "base/error.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

namespace ingot {

namespace {

constexpr std::array<std::string_view, 13> kNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "text", "array", "u64", "i64", "f64"};

template <typename T>
T load(const GgufValue& value, std::uint64_t index) {
  T result;
  std::memcpy(&result, value.bytes.data() + index * sizeof result, sizeof result);
  return result;
}

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kU16:
    case GgufType::kI16:
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kU64:
    case GgufType::kI64:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string_view gguf_type_name(GgufType type) {
  return kNames.at(static_cast<std::size_t>(type));
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &entries_[it->second].second;
}

bool GgufMetadata::add(std::string_view key, const GgufValue& value) {
  if (!index_.emplace(key, entries_.size()).second) return false;
  entries_.emplace_back(key, value);
  return true;
}

void GgufMetadata::wrong_type(std::string_view key, const GgufValue& value,
                              std::string_view wanted) const {
  std::string got(gguf_type_name(value.type));
  if (value.type == GgufType::kArray) got += " of " + std::string(gguf_type_name(value.element));
  fail(ErrorCode::kBadInput, "[gguf.{}] {}: is {}, wanted {}", key, file_, got, wanted);
}

void GgufMetadata::missing(std::string_view key) const {
  fail(ErrorCode::kBadInput, "[gguf.{}] missing in {}", key, file_);
}

std::int64_t GgufMetadata::integer_at(std::string_view key, const GgufValue& value,
                                      std::uint64_t index, std::string_view wanted) const {
  switch (value.element) {
    case GgufType::kU8:
      return load<std::uint8_t>(value, index);
    case GgufType::kI8:
      return load<std::int8_t>(value, index);
    case GgufType::kU16:
      return load<std::uint16_t>(value, index);
    case GgufType::kI16:
      return load<std::int16_t>(value, index);
    case GgufType::kU32:
      return load<std::uint32_t>(value, index);
    case GgufType::kI32:
      return load<std::int32_t>(value, index);
    case GgufType::kI64:
      return load<std::int64_t>(value, index);
    case GgufType::kU64: {
      const auto u = load<std::uint64_t>(value, index);
      if (u > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        fail(ErrorCode::kBadInput, "[gguf.{}] {}: {} is past 2^63", key, file_, u);
      return static_cast<std::int64_t>(u);
    }
    default:
      wrong_type(key, value, wanted);
  }
}

std::optional<std::int64_t> GgufMetadata::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type == GgufType::kArray) wrong_type(key, *value, "an integer");
  return integer_at(key, *value, 0, "an integer");
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type == GgufType::kF32) return load<float>(*value, 0);
  if (value->type == GgufType::kF64) return load<double>(*value, 0);
  if (value->type == GgufType::kArray) wrong_type(key, *value, "a number");
  return static_cast<double>(integer_at(key, *value, 0, "a number"));
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufType::kBool) wrong_type(key, *value, "a bool");
  return value->bytes[0] != std::byte{0};
}

std::optional<std::string_view> GgufMetadata::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufType::kText) wrong_type(key, *value, "a text");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

std::optional<std::vector<std::int64_t>> GgufMetadata::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (!is_integer(value->element)) wrong_type(key, *value, "an array of integers");
  std::vector<std::int64_t> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i)
    result.push_back(integer_at(key, *value, i, "an array of integers"));
  return result;
}

std::optional<std::vector<float>> GgufMetadata::floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufType::kArray ||
      (value->element != GgufType::kF32 && value->element != GgufType::kF64))
    wrong_type(key, *value, "an array of floats");
  std::vector<float> result;
  result.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i)
    result.push_back(value->element == GgufType::kF32
                         ? load<float>(*value, i)
                         : static_cast<float>(load<double>(*value, i)));
  return result;
}

std::optional<std::vector<bool>> GgufMetadata::booleans(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->element != GgufType::kBool) wrong_type(key, *value, "an array of bools");
  std::vector<bool> result;
  result.reserve(value->count);
  for (const std::byte b : value->bytes) result.push_back(b != std::byte{0});
  return result;
}

std::optional<std::vector<std::string_view>> GgufMetadata::texts(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufType::kArray || value->element != GgufType::kText)
    wrong_type(key, *value, "an array of texts");
  std::vector<std::string_view> result;
  result.reserve(value->count);
  // Lengths were checked when the file was opened.
  const auto* at = reinterpret_cast<const char*>(value->bytes.data());
  for (std::uint64_t i = 0; i < value->count; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, at, sizeof size);
    result.emplace_back(at + sizeof size, size);
    at += sizeof size + size;
  }
  return result;
}

std::optional<std::span<const std::byte>> GgufMetadata::raw(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufType::kArray ||
      (value->element != GgufType::kU8 && value->element != GgufType::kI8))
    wrong_type(key, *value, "an array of bytes");
  return value->bytes;
}

std::int64_t GgufMetadata::require_integer(std::string_view key) const {
  if (const auto value = integer(key)) return *value;
  missing(key);
}

double GgufMetadata::require_number(std::string_view key) const {
  if (const auto value = number(key)) return *value;
  missing(key);
}

std::string_view GgufMetadata::require_text(std::string_view key) const {
  if (const auto value = text(key)) return *value;
  missing(key);
}

std::vector<std::string_view> GgufMetadata::require_texts(std::string_view key) const {
  if (auto value = texts(key)) return std::move(*value);
  missing(key);
}

}  // namespace ingot
