#include "builder/hub_files.h"

#include "base/error.h"
#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace ingot {

const HubFile* HubRepository::find(std::string_view name) const {
  const auto at = std::find_if(files.begin(), files.end(),
                               [&](const HubFile& file) { return file.name == name; });
  return at == files.end() ? nullptr : &*at;
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024) return false;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    for (const char c : part)
      if (c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
    begin = end + 1;
  }
  return true;
}

namespace {

bool is_hex(std::string_view s, std::size_t length) {
  return s.size() == length && std::all_of(s.begin(), s.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool in_root(const HubFile& file) {
  return file.name.find('/') == std::string::npos;
}

bool matches(const HubFile& file, std::string_view prefix, std::string_view suffix) {
  return in_root(file) && file.name.starts_with(prefix) && file.name.ends_with(suffix);
}

}  // namespace

HubRepository parse_repository(std::string_view text, std::string_view repository) {
  const Json json = parse_json(text, "the hub's answer");
  const auto broken = [&](std::string_view what) {
    fail(ErrorCode::kBadInput, "[hub.answer] {}: {} in the hub's answer", repository, what);
  };
  HubRepository out;
  if (!json.is_object() || !json.contains("sha") || !json["sha"].is_string()) broken("no commit");
  out.commit = json["sha"];
  if (!is_hex(out.commit, 40)) broken("a malformed commit");
  if (!json.contains("siblings") || !json["siblings"].is_array()) broken("no list of files");
  for (const Json& entry : json["siblings"]) {
    HubFile file;
    if (!entry.is_object() || !entry.contains("rfilename") || !entry["rfilename"].is_string())
      broken("a file without name");
    file.name = entry["rfilename"];
    if (!is_safe_path(file.name))
      fail(ErrorCode::kBadInput,
           "[hub.answer] {}: refused the file name '{}', which leaves the cache", repository,
           file.name.substr(0, 200));
    const Json* source = &entry;
    std::string_view key = "blobId";
    std::size_t digits = 40;
    if (entry.contains("lfs") && entry["lfs"].is_object()) {
      source = &entry["lfs"];
      key = "sha256";
      digits = 64;
    }
    if (source->contains("size") && (*source)["size"].is_number_unsigned())
      file.size = (*source)["size"];
    if (source->contains(key) && (*source)[key].is_string()) file.etag = (*source)[key];
    if (!is_hex(file.etag, digits)) broken("a file without checksum");
    out.files.push_back(std::move(file));
  }
  return out;
}

namespace {

// Small files that a model folder may bring besides its weights.
bool is_companion(const HubFile& file) {
  static const std::set<std::string_view> kNames = {
      "config.json",          "generation_config.json",
      "tokenizer.json",       "tokenizer_config.json",
      "tokenizer.model",      "special_tokens_map.json",
      "added_tokens.json",    "vocab.json",
      "merges.txt",           "vocab.txt",
      "spiece.model",         "sentencepiece.bpe.model",
      "chat_template.jinja",  "chat_template.json",
      "tekken.json",          "params.json",
      "quantize_config.json", "quant_config.json",
      "hf_quant_config.json"};
  if (kNames.contains(file.name)) return true;
  if (file.name.starts_with("additional_chat_templates/") && file.name.ends_with(".jinja"))
    return true;
  return matches(file, "", ".tiktoken");
}

// All parts of name-00001-of-0000N.gguf, else the file itself.
std::vector<HubFile> gguf_parts(const HubRepository& repository, const HubFile& first) {
  const std::size_t mark = first.name.rfind("-of-");
  if (mark == std::string::npos || mark < 6) return {first};
  const std::string stem = first.name.substr(0, mark - 5);
  const std::string tail = first.name.substr(mark);
  std::vector<HubFile> parts;
  for (const HubFile& file : repository.files)
    if (file.name.size() == first.name.size() && file.name.starts_with(stem) &&
        file.name.ends_with(tail))
      parts.push_back(file);
  return parts;
}

HubSelection select_gguf(const HubRepository& repository, const HubFile& file) {
  HubSelection out;
  out.files = gguf_parts(repository, file);
  std::sort(out.files.begin(), out.files.end(),
            [](const HubFile& a, const HubFile& b) { return a.name < b.name; });
  out.single_gguf = true;
  out.gguf = out.files.front().name;
  return out;
}

// The one .gguf of the repository, parts counted once; complains about none or several.
HubSelection select_only_gguf(const HubRepository& repository, std::string_view name) {
  std::vector<HubFile> found;
  for (const HubFile& file : repository.files) {
    if (!file.name.ends_with(".gguf")) continue;
    const std::size_t mark = file.name.rfind("-of-");
    const bool later =
        mark != std::string::npos && mark >= 5 && file.name.substr(mark - 5, 5) != "00001" &&
        file.name.substr(mark - 5, 5).find_first_not_of("0123456789") == std::string::npos;
    if (!later) found.push_back(file);
  }
  if (found.size() == 1) return select_gguf(repository, found.front());
  if (found.empty())
    fail(ErrorCode::kBadInput,
         "[hub.files] {}: no weights in it: wanted safetensors, .bin, consolidated.*.pth or .gguf",
         name);
  std::string list;
  for (const HubFile& file : found) list += "\n  " + std::string(name) + ":" + file.name;
  fail(ErrorCode::kUsage, "[hub.files] {}: several .gguf files, name one:{}", name, list);
}

}  // namespace

HubSelection select_files(const HubRepository& repository, std::string_view name,
                          std::string_view wanted) {
  if (!wanted.empty()) {
    const HubFile* file = repository.find(wanted);
    if (!file) fail(ErrorCode::kBadInput, "[hub.files] {}: no file '{}' in it", name, wanted);
    if (file->name.ends_with(".gguf")) return select_gguf(repository, *file);
    return {.files = {*file}};
  }
  HubSelection out;
  for (const HubFile& file : repository.files)
    if (is_companion(file)) out.files.push_back(file);
  static constexpr std::string_view kIndices[] = {"model.safetensors.index.json",
                                                  "pytorch_model.bin.index.json"};
  struct Form {
    std::string_view index, prefix, suffix;
  };
  // In this order; Meta's own files only where nothing else is.
  static constexpr Form kForms[] = {{kIndices[0], "model", ".safetensors"},
                                    {kIndices[1], "pytorch_model", ".bin"},
                                    {"", "consolidated.", ".pth"}};
  for (const Form& form : kForms) {
    if (const HubFile* index = form.index.empty() ? nullptr : repository.find(form.index)) {
      out.files.push_back(*index);
      out.index = index->name;
      return out;
    }
    bool any = false;
    for (const HubFile& file : repository.files) {
      if (!matches(file, form.prefix, form.suffix)) continue;
      out.files.push_back(file);
      any = true;
    }
    if (any) return out;
  }
  return select_only_gguf(repository, name);
}

std::vector<std::string> indexed_files(std::string_view text, std::string_view name) {
  const Json json = parse_json(text, name);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail(ErrorCode::kBadInput, "[hub.index] {}: no weight_map in it", name);
  std::set<std::string> names;
  for (const Json& file : json["weight_map"]) {
    if (!file.is_string() || !is_safe_path(file.get_ref<const std::string&>()))
      fail(ErrorCode::kBadInput, "[hub.index] {}: names a file that cannot be", name);
    names.insert(file.get<std::string>());
  }
  return {names.begin(), names.end()};
}

}  // namespace ingot
