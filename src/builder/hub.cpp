#include "builder/hub.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "builder/hub_cache.h"
#include "builder/hub_files.h"
#include "builder/hub_http.h"

#include <algorithm>
#include <cstdlib>

namespace ingot {

namespace fs = std::filesystem;

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

std::string trimmed(std::string text) {
  const auto blank = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(blank), text.size()));
  text.erase(text.find_last_not_of(blank) + 1);
  return text;
}

bool is_word(std::string_view s, std::string_view extra) {
  return !s.empty() && s.size() <= 96 && s.front() != '.' && s.front() != '-' &&
         s.find("..") == s.npos && std::all_of(s.begin(), s.end(), [&](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  extra.find(c) != extra.npos;
         });
}

}  // namespace

HubOptions HubOptions::from_environment() {
  HubOptions options;
  if (std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (!endpoint.starts_with("https://") && !endpoint.starts_with("http://"))
      fail(ErrorCode::kUsage, "[hub.options] HF_ENDPOINT is '{}', wanted https://...", endpoint);
    options.endpoint = endpoint;
  }
  fs::path home = environment("HF_HOME");
  if (home.empty()) {
    const std::string xdg = environment("XDG_CACHE_HOME");
    home = (xdg.empty() ? fs::path(environment("HOME")) / ".cache" : fs::path(xdg)) / "huggingface";
  }
  const std::string cache = environment("HF_HUB_CACHE");
  options.cache = cache.empty() ? home / "hub" : fs::path(cache);
  options.token = trimmed(environment("HF_TOKEN"));
  if (options.token.empty()) {
    const std::string file = environment("HF_TOKEN_PATH");
    const fs::path path = file.empty() ? home / "token" : fs::path(file);
    std::error_code ignored;
    if (fs::exists(path, ignored)) options.token = trimmed(read_file(path, 1 << 16));
  }
  for (const char* name : {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"})
    if (const std::string file = environment(name); !file.empty()) options.certificates = file;
  options.offline =
      is_true(environment("HF_HUB_OFFLINE")) || is_true(environment("TRANSFORMERS_OFFLINE"));
  return options;
}

std::optional<HubName> parse_hub_name(std::string_view text) {
  HubName out;
  if (const std::size_t colon = text.find(':'); colon != text.npos) {
    out.file = text.substr(colon + 1);
    if (!is_safe_path(out.file)) return std::nullopt;
    text = text.substr(0, colon);
  }
  if (const std::size_t at = text.find('@'); at != text.npos) {
    out.revision = text.substr(at + 1);
    if (!is_word(out.revision, "._-/") || !is_safe_path(out.revision)) return std::nullopt;
    text = text.substr(0, at);
  }
  const std::size_t slash = text.find('/');
  if (slash == text.npos || !is_word(text.substr(0, slash), "._-") ||
      !is_word(text.substr(slash + 1), "._-"))
    return std::nullopt;
  out.repository = text;
  return out;
}

namespace {

// One fetch: the repository's listing, then its files one after the other.
class Fetch {
 public:
  Fetch(const HubName& name, const HubOptions& options, const ProgressCallback& progress)
      : name_(name),
        progress_(progress),
        cache_(options.cache, name.repository),
        connection_(options, [this] { return !progress_ || progress_(here_); }) {}

  fs::path run();

 private:
  HubRepository list();
  void bring(const std::vector<HubFile>& files);
  void bring(const HubFile& file);

  const HubName& name_;
  const ProgressCallback& progress_;
  HubCache cache_;
  HubConnection connection_;
  HubProgress here_;
  std::string commit_;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
};

HubRepository Fetch::list() {
  const std::string path =
      fmt::format("/api/models/{}/revision/{}?blobs=true", url_encode(name_.repository, true),
                  url_encode(name_.revision, false));
  return parse_repository(connection_.get(path, std::size_t{64} << 20), name_.repository);
}

void Fetch::bring(const HubFile& file) {
  // What is here already is used from a cache that cannot be written, too.
  std::optional<HubCache::Lock> lock;
  if (!cache_.has_blob(file)) lock.emplace(cache_.lock(file.etag));
  if (!cache_.has_blob(file)) {
    const std::uint64_t before = done_;
    connection_.download(
        {.path = fmt::format("/{}/resolve/{}/{}", url_encode(name_.repository, true), commit_,
                             url_encode(file.name, true)),
         .file = cache_.incomplete(file),
         .size = file.size,
         .on_bytes = [&](std::uint64_t here) {
           here_ = {.file = file.name,
                    .file_bytes = here,
                    .file_total = file.size,
                    .bytes = before + here,
                    .total = total_};
           return !progress_ || progress_(here_);
         }});
    cache_.verify_and_keep(file, name_.repository);
  }
  done_ += file.size;
  cache_.link(commit_, file);
}

void Fetch::bring(const std::vector<HubFile>& files) {
  std::uint64_t missing = 0;
  for (const HubFile& file : files) {
    total_ += file.size;
    missing += cache_.missing_bytes(file);
  }
  cache_.check_space(missing, name_.repository);
  for (const HubFile& file : files) bring(file);
}

fs::path Fetch::run() {
  const HubRepository repository = list();
  commit_ = repository.commit;
  const HubSelection selection = select_files(repository, name_.repository, name_.file);
  cache_.prepare();
  bring(selection.files);
  const fs::path folder = cache_.snapshot(commit_);
  if (!selection.index.empty()) {
    std::vector<HubFile> weights;
    const std::string index = read_file(folder / selection.index, std::size_t{256} << 20);
    for (const std::string& name : indexed_files(index, selection.index)) {
      const HubFile* file = repository.find(name);
      if (!file)
        fail(ErrorCode::kBadInput, "[hub.index] {}: {} names '{}', which the repository lacks",
             name_.repository, selection.index, name);
      weights.push_back(*file);
    }
    bring(weights);
  }
  cache_.write_ref(name_.revision, commit_);
  return selection.single_gguf ? folder / selection.gguf
         : name_.file.empty()  ? folder
                               : folder / name_.file;
}

}  // namespace

fs::path fetch_from_hub(std::string_view text, const HubOptions& options,
                        const ProgressCallback& progress) {
  const std::optional<HubName> name = parse_hub_name(text);
  if (!name)
    fail(ErrorCode::kUsage, "[hub.name] '{}' is no path that exists and no hub name (org/name)",
         text);
  const HubCache cache(options.cache, name->repository);
  if (options.offline) {
    if (auto found = cache.find_complete(*name)) return *std::move(found);
    fail(ErrorCode::kSystem,
         "[hub.offline] {} is not complete in {}: fetch it once without HF_HUB_OFFLINE", text,
         options.cache.string());
  }
  try {
    return Fetch(*name, options, progress).run();
  } catch (const Error& error) {
    // No network: what was fetched before does as well, but not silently.
    if (error.code() != ErrorCode::kSystem || !error.message().starts_with("[hub.connect]")) throw;
    const auto found = cache.find_complete(*name);
    if (!found) throw;
    log_warning("{}: using the copy in {}", error.message(), found->string());
    return *found;
  }
}

}  // namespace ingot
