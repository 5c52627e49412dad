#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What a repository holds, and what of it a model needs.
namespace ingot {

struct HubFile {
  std::string name;  // path in the repository, checked: relative, no ".."
  std::uint64_t size = 0;
  std::string etag;  // sha256 of large files, else git's blob id (sha1)
};

struct HubRepository {
  std::string commit;
  std::vector<HubFile> files;

  const HubFile* find(std::string_view name) const;
};

// Reads the answer of /api/models/.../revision/...?blobs=true. Throws Error{kBadInput}, also for
// names that would leave the cache.
HubRepository parse_repository(std::string_view json, std::string_view repository);

// A relative path of plain components.
bool is_safe_path(std::string_view path);

// What is fetched first: configuration, tokenizer, template and the index of the weights; and the
// weights, but for those an index will name.
struct HubSelection {
  std::vector<HubFile> files;
  std::string index;         // name of the index among `files`, empty if none
  bool single_gguf = false;  // the model is one .gguf (its first part)
  std::string gguf;
};
// `file` names one file, or is empty. Throws Error as fetch_from_hub.
HubSelection select_files(const HubRepository& repository, std::string_view name,
                          std::string_view file);

// The files that an index (model.safetensors.index.json) names.
std::vector<std::string> indexed_files(std::string_view index_json, std::string_view name);

}  // namespace ingot
