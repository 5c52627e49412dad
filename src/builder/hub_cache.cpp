#include "builder/hub_cache.h"

#include "base/error.h"
#include "base/file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

namespace ingot {

namespace fs = std::filesystem;

namespace {

// models--org--name
std::string folder_name(std::string_view repository) {
  std::string out = "models--" + std::string(repository);
  out.replace(out.find('/'), 1, "--");
  return out;
}

[[noreturn]] void fail_disk(const fs::path& path, const std::error_code& error) {
  fail(ErrorCode::kSystem, "[hub.disk] {}: {}", path.string(), error.message());
}

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_disk(path, error);
}

// Checksum of a file in hexadecimal: sha256, or git's blob id for the small files.
std::string checksum(const fs::path& path, const HubFile& file) {
  const bool sha256 = file.etag.size() == 64;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  const MappedFile data = file.size > 0 ? MappedFile(path) : MappedFile();
  const std::string header = fmt::format("blob {}", file.size) + '\0';
  const bool good =
      context &&
      EVP_DigestInit_ex(context.get(), sha256 ? EVP_sha256() : EVP_sha1(), nullptr) == 1 &&
      (sha256 || EVP_DigestUpdate(context.get(), header.data(), header.size()) == 1) &&
      EVP_DigestUpdate(context.get(), data.bytes().data(), data.size()) == 1 &&
      EVP_DigestFinal_ex(context.get(), digest.data(), &length) == 1;
  if (!good)
    fail(ErrorCode::kSystem, "[hub.verify] libcrypto has no {}", sha256 ? "SHA-256" : "SHA-1");
  std::string out;
  for (const unsigned char byte : std::span(digest).first(length))
    out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace

HubCache::HubCache(fs::path cache, std::string_view repository)
    : cache_(std::move(cache)),
      locks_(cache_ / ".locks" / folder_name(repository)),
      folder_(cache_ / folder_name(repository)) {}

HubCache::Lock::Lock(const fs::path& path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  int result = fd_;
  while (fd_ >= 0 && (result = ::flock(fd_, LOCK_EX)) != 0 && errno == EINTR) {
  }
  if (result < 0)
    fail(ErrorCode::kSystem, "[hub.lock] {}: {}", path.string(), std::strerror(errno));
}

HubCache::Lock::~Lock() {
  if (fd_ >= 0) ::close(fd_);
}

HubCache::Lock HubCache::lock(const std::string& etag) const {
  return Lock(locks_ / (etag + ".lock"));
}

void HubCache::prepare() const {
  make_folders(locks_);
  for (const char* name : {"blobs", "refs", "snapshots"}) make_folders(folder_ / name);
}

fs::path HubCache::blob(const HubFile& file) const {
  return folder_ / "blobs" / file.etag;
}

fs::path HubCache::incomplete(const HubFile& file) const {
  return folder_ / "blobs" / (file.etag + ".incomplete");
}

bool HubCache::has_blob(const HubFile& file) const {
  std::error_code error;
  const auto size = fs::file_size(blob(file), error);
  return !error && size == file.size;
}

std::uint64_t HubCache::missing_bytes(const HubFile& file) const {
  if (has_blob(file)) return 0;
  std::error_code error;
  const auto here = fs::file_size(incomplete(file), error);
  return error ? file.size : file.size - std::min<std::uint64_t>(here, file.size);
}

void HubCache::check_space(std::uint64_t bytes, std::string_view repository) const {
  std::error_code error;
  const auto space = fs::space(folder_, error);
  if (error) fail_disk(folder_, error);
  if (bytes > space.available)
    fail(ErrorCode::kSystem,
         "[hub.disk] {}: {:.2f} GB to fetch, {:.2f} GB free in {}: free some, or set HF_HUB_CACHE "
         "to "
         "a larger disk",
         repository, static_cast<double>(bytes) * 1e-9, static_cast<double>(space.available) * 1e-9,
         cache_.string());
}

void HubCache::verify_and_keep(const HubFile& file, std::string_view repository) const {
  const fs::path path = incomplete(file);
  const std::string found = checksum(path, file);
  std::error_code error;
  if (found != file.etag) {
    fs::remove(path, error);
    fail(ErrorCode::kBadInput,
         "[hub.verify] {}/{}: checksum {}, wanted {}: damaged on the way, deleted; fetch it again",
         repository, file.name, found, file.etag);
  }
  fs::rename(path, blob(file), error);
  if (error) fail_disk(blob(file), error);
}

void HubCache::link(const std::string& commit, const HubFile& file) const {
  const fs::path path = snapshot(commit) / file.name;
  make_folders(path.parent_path());
  // From the link's folder up to the repository's, then to the blob.
  const fs::path target = fs::path("../..") /
                          snapshot(commit).lexically_relative(path.parent_path()) / "blobs" /
                          file.etag;
  std::error_code error;
  if (fs::is_symlink(path, error) && fs::read_symlink(path, error) == target.lexically_normal())
    return;
  // Under another name first: a reader never sees the link missing.
  const fs::path temporary = path.string() + fmt::format(".{}.tmp", ::getpid());
  fs::remove(temporary, error);
  fs::create_symlink(target.lexically_normal(), temporary, error);
  if (error) fail_disk(temporary, error);
  fs::rename(temporary, path, error);
  if (error) fail_disk(path, error);
}

void HubCache::write_ref(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return;
  const fs::path path = folder_ / "refs" / revision;
  std::error_code error;
  if (fs::is_regular_file(path, error) && read_file(path) == commit) return;
  make_folders(path.parent_path());
  AtomicFile file(path);
  file.write(commit);
  file.commit();
}

fs::path HubCache::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}

std::optional<fs::path> HubCache::find_complete(const HubName& name) const {
  std::error_code error;
  std::string commit = name.revision;
  if (const fs::path ref = folder_ / "refs" / name.revision; fs::is_regular_file(ref, error)) {
    commit = read_file(ref, 1 << 12);
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r')) commit.pop_back();
  }
  const fs::path root = snapshot(commit);
  if (!is_safe_path(commit) || !fs::is_directory(root, error)) return std::nullopt;
  if (!name.file.empty()) {
    if (!fs::exists(root / name.file, error)) return std::nullopt;
    return root / name.file;
  }
  // The listing is rebuilt from what is here, so that the same choice is made as when fetching.
  HubRepository here;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (fs::is_regular_file(entry.path(), error))  // follows the link: the blob is there
      here.files.push_back({.name = entry.path().lexically_relative(root).generic_string()});
  try {
    const HubSelection selection = select_files(here, name.repository, {});
    if (!selection.index.empty())
      for (const std::string& file : indexed_files(
               read_file(root / selection.index, std::size_t{256} << 20), selection.index))
        if (!here.find(file)) return std::nullopt;
    return selection.single_gguf ? root / selection.gguf : root;
  } catch (const Error&) {
    return std::nullopt;  // nothing to run in it
  }
}

}  // namespace ingot
