#include "formats/hf_config.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace ingot {

struct HfConfig::Document {
  std::string file;
  Json root;
};

namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
constexpr int kMaxDepth = 64;

// Python's json module writes NaN, Infinity and -Infinity, which are not JSON. Outside of texts
// they become texts, which as_number knows.
std::string quote_python_numbers(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  bool in_text = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    std::size_t taken = 1;
    if (in_text) {
      if (rest[0] == '"') in_text = false;
      if (rest[0] == '\\' && rest.size() > 1) taken = 2;
    } else if (rest[0] == '"') {
      in_text = true;
    } else {
      for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
        if (rest.starts_with(word)) taken = word.size();
    }
    if (taken > 2) {
      out.append("\"").append(rest.substr(0, taken)).append("\"");
    } else {
      out.append(rest.substr(0, taken));
    }
    i += taken;
  }
  return out;
}

template <typename T, typename F>
std::vector<T> each(const Json& value, F&& convert) {
  std::vector<T> result;
  if (!value.is_array()) return {convert(value)};
  result.reserve(value.size());
  for (const Json& element : value) result.push_back(convert(element));
  return result;
}

}  // namespace

HfConfig::HfConfig() : HfConfig(from_text("{}", "")) {}

HfConfig::HfConfig(std::shared_ptr<const Document> document, const Json* node, std::string path)
    : document_(std::move(document)), node_(node), path_(std::move(path)) {}

HfConfig HfConfig::from_file(const std::filesystem::path& path) {
  return from_text(read_file(path, kMaxBytes), path.string());
}

HfConfig HfConfig::from_text(std::string_view text, std::string_view file) {
  auto document = std::make_shared<Document>();
  document->file = file;
  document->root = parse_json(quote_python_numbers(text), file,
                              {.max_bytes = kMaxBytes * 2, .max_depth = kMaxDepth});
  if (!document->root.is_object())
    fail(ErrorCode::kBadInput, "[config] {}: is {}, wanted an object", file,
         document->root.type_name());
  const Json* root = &document->root;
  return HfConfig(std::move(document), root, "");
}

const std::string& HfConfig::file() const {
  return document_->file;
}

const Json* HfConfig::find(std::string_view key) const {
  const auto it = node_->find(key);
  return it == node_->end() || it->is_null() ? nullptr : &*it;
}

bool HfConfig::has(std::string_view key) const {
  return find(key) != nullptr;
}

std::vector<std::string> HfConfig::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : node_->items()) result.push_back(key);
  return result;
}

void HfConfig::refuse(std::string_view key, std::string_view message) const {
  fail(ErrorCode::kBadInput, "[config.{}{}] {}: {}", path_, key, document_->file, message);
}

void HfConfig::missing(std::string_view key) const {
  fail(ErrorCode::kBadInput, "[config.{}{}] missing in {}", path_, key, document_->file);
}

void HfConfig::wrong_type(std::string_view key, const Json& value, std::string_view wanted) const {
  std::string got = dump_json(value);
  if (got.size() > 80) got = got.substr(0, 77) + "...";
  refuse(key, fmt::format("is {}, wanted {}", got, wanted));
}

// 8.0 counts as 8: configs that went through other tools hold such sizes.
std::int64_t HfConfig::as_integer(std::string_view key, const Json& value) const {
  if (value.is_number_unsigned()) {
    const auto u = value.get<std::uint64_t>();
    if (u <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return static_cast<std::int64_t>(u);
  } else if (value.is_number_integer()) {
    return value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    const double d = value.get<double>();
    if (d == std::floor(d) && std::fabs(d) < 9007199254740992.0)
      return static_cast<std::int64_t>(d);
  }
  wrong_type(key, value, "an integer");
}

double HfConfig::as_number(std::string_view key, const Json& value) const {
  if (value.is_number()) return value.get<double>();
  if (value == "Infinity") return std::numeric_limits<double>::infinity();
  if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  wrong_type(key, value, "a number");
}

std::string HfConfig::as_text(std::string_view key, const Json& value) const {
  if (!value.is_string()) wrong_type(key, value, "a text");
  return value.get<std::string>();
}

std::optional<std::int64_t> HfConfig::find_integer(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  return as_integer(key, *value);
}

std::optional<double> HfConfig::find_number(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  return as_number(key, *value);
}

std::optional<bool> HfConfig::find_boolean(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) wrong_type(key, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> HfConfig::find_text(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  return as_text(key, *value);
}

std::optional<std::vector<std::int64_t>> HfConfig::find_integers(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  return each<std::int64_t>(*value, [&](const Json& v) { return as_integer(key, v); });
}

std::optional<std::vector<double>> HfConfig::find_numbers(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  return each<double>(*value, [&](const Json& v) { return as_number(key, v); });
}

std::optional<std::vector<std::string>> HfConfig::find_texts(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  return each<std::string>(*value, [&](const Json& v) { return as_text(key, v); });
}

std::optional<HfConfig> HfConfig::find_child(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) wrong_type(key, *value, "an object");
  return HfConfig(document_, value, path_ + std::string(key) + ".");
}

std::int64_t HfConfig::integer(std::string_view key) const {
  if (const auto value = find_integer(key)) return *value;
  missing(key);
}

double HfConfig::number(std::string_view key) const {
  if (const auto value = find_number(key)) return *value;
  missing(key);
}

bool HfConfig::boolean(std::string_view key) const {
  if (const auto value = find_boolean(key)) return *value;
  missing(key);
}

std::string HfConfig::text(std::string_view key) const {
  if (auto value = find_text(key)) return std::move(*value);
  missing(key);
}

std::vector<std::int64_t> HfConfig::integers(std::string_view key) const {
  if (auto value = find_integers(key)) return std::move(*value);
  missing(key);
}

std::vector<double> HfConfig::numbers(std::string_view key) const {
  if (auto value = find_numbers(key)) return std::move(*value);
  missing(key);
}

std::vector<std::string> HfConfig::texts(std::string_view key) const {
  if (auto value = find_texts(key)) return std::move(*value);
  missing(key);
}

HfConfig HfConfig::child(std::string_view key) const {
  if (auto value = find_child(key)) return std::move(*value);
  missing(key);
}

bool HfConfig::is_text(std::string_view key) const {
  const Json* value = find(key);
  return value && value->is_string();
}

bool HfConfig::is_list(std::string_view key) const {
  const Json* value = find(key);
  return value && value->is_array();
}

bool HfConfig::is_object(std::string_view key) const {
  const Json* value = find(key);
  return value && value->is_object();
}

}  // namespace ingot
