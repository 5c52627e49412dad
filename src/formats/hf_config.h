#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// Typed access to config.json, generation_config.json, params.json and their like. Knows no key and
// no default. An absent key and null are the same. Errors are Error{kBadInput} that name the key,
// the file, what is there and what was wanted: "[config.hidden_size] missing in <file>".
class HfConfig {
 public:
  // An empty object.
  HfConfig();
  // Reads a file. Python's NaN and Infinity are accepted as numbers.
  static HfConfig from_file(const std::filesystem::path& path);
  static HfConfig from_text(std::string_view text, std::string_view file);

  bool has(std::string_view key) const;
  std::vector<std::string> keys() const;
  const std::string& file() const;

  // Required.
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key) const;  // also a single integer
  std::vector<double> numbers(std::string_view key) const;         // also a single number
  std::vector<std::string> texts(std::string_view key) const;      // also a single text
  HfConfig child(std::string_view key) const;

  // The same, or nothing when absent. The wrong type is an error all the same.
  std::optional<std::int64_t> find_integer(std::string_view key) const;
  std::optional<double> find_number(std::string_view key) const;
  std::optional<bool> find_boolean(std::string_view key) const;
  std::optional<std::string> find_text(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> find_integers(std::string_view key) const;
  std::optional<std::vector<double>> find_numbers(std::string_view key) const;
  std::optional<std::vector<std::string>> find_texts(std::string_view key) const;
  std::optional<HfConfig> find_child(std::string_view key) const;

  // Type tests for keys that are written in several ways. False when absent.
  bool is_text(std::string_view key) const;
  bool is_list(std::string_view key) const;
  bool is_object(std::string_view key) const;

  // For what the getters do not cover. Valid while a copy of this object lives.
  const nlohmann::json& json() const { return *node_; }
  // Throws Error{kBadInput} "[config.<key>] <file>: <message>", for checks of a value's meaning.
  [[noreturn]] void refuse(std::string_view key, std::string_view message) const;

 private:
  struct Document;
  HfConfig(std::shared_ptr<const Document> document, const nlohmann::json* node, std::string path);

  const nlohmann::json* find(std::string_view key) const;
  [[noreturn]] void missing(std::string_view key) const;
  [[noreturn]] void wrong_type(std::string_view key, const nlohmann::json& value,
                               std::string_view wanted) const;
  std::int64_t as_integer(std::string_view key, const nlohmann::json& value) const;
  double as_number(std::string_view key, const nlohmann::json& value) const;
  std::string as_text(std::string_view key, const nlohmann::json& value) const;

  std::shared_ptr<const Document> document_;
  const nlohmann::json* node_;  // an object inside the document
  std::string path_;            // "" or "text_config."
};

}  // namespace ingot
