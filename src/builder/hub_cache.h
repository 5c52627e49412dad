#pragma once

#include "builder/hub.h"
#include "builder/hub_files.h"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ingot {

// One repository's folder in the cache of huggingface_hub:
//   models--org--name/refs/REVISION         the commit, as text
//   models--org--name/blobs/ETAG            the data; ETAG.incomplete while it comes
//   models--org--name/snapshots/COMMIT/...  relative links to blobs
//   .locks/models--org--name/ETAG.lock      flock'ed while a blob is written
class HubCache {
 public:
  HubCache(std::filesystem::path cache, std::string_view repository);

  // Held until destroyed.
  class Lock {
   public:
    explicit Lock(const std::filesystem::path& path);
    ~Lock();
    Lock(Lock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    int fd_ = -1;
  };

  void prepare() const;
  Lock lock(const std::string& etag) const;
  bool has_blob(const HubFile& file) const;
  std::filesystem::path incomplete(const HubFile& file) const;
  std::uint64_t missing_bytes(const HubFile& file) const;
  // Throws Error{kSystem} when less than `bytes` are free.
  void check_space(std::uint64_t bytes, std::string_view repository) const;
  // Compares checksum and size with what the hub announced, then gives the blob its name. Damaged
  // data is deleted: Error{kBadInput}.
  void verify_and_keep(const HubFile& file, std::string_view repository) const;
  void link(const std::string& commit, const HubFile& file) const;
  void write_ref(const std::string& revision, const std::string& commit) const;
  std::filesystem::path snapshot(const std::string& commit) const;

  // What fetch_from_hub would return, if the cache holds all of it; asks nobody.
  std::optional<std::filesystem::path> find_complete(const HubName& name) const;

 private:
  std::filesystem::path blob(const HubFile& file) const;

  std::filesystem::path cache_;
  std::filesystem::path locks_;
  std::filesystem::path folder_;
};

}  // namespace ingot
