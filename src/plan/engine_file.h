#pragma once

#include "base/file.h"
#include "base/json.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// The `.ingot` file (little endian):
//    0  magic "INGOTENG", u32 format version, u32 reserved
//   16  u64 offset of the tables, u64 bytes of the manifest, u64 bytes of the blob table,
//       u64 XXH3 of both
//   48  u64 bytes of the file, u64 XXH3 of bytes 0 to 55
//   64  blobs, each at a multiple of 64 KiB; then the manifest and the blob table (JSON, sorted)
namespace ingot {

inline constexpr std::uint32_t kEngineFormatVersion = 1;
inline constexpr std::uint64_t kBlobAlignment = 64 << 10;

struct EngineBlob {
  std::string name;  // "weights", "tokenizer", "chat_template", "code/<name>"
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH3
};

struct BlobHasher;  // XXH3 of a blob as it comes

// Writes an engine under a temporary name; commit() makes it appear whole or not at all.
class EngineWriter {
 public:
  explicit EngineWriter(const std::filesystem::path& path);

  // One blob at a time; append() streams into it. Returns its checksum at the end.
  void begin_blob(std::string name);
  void append(std::span<const std::byte> bytes);
  void pad_blob_to(std::uint64_t alignment);  // zero bytes, counted in the blob
  std::uint64_t blob_position() const;        // bytes in the open blob so far
  void end_blob();
  void add_blob(std::string name, std::span<const std::byte> bytes);

  void commit(const Json& manifest);

 private:
  AtomicFile file_;
  std::vector<EngineBlob> blobs_;
  std::shared_ptr<BlobHasher> hasher_;
};

// An opened engine: mapped, header and tables verified, blobs not yet.
class EngineFile {
 public:
  // Throws Error{kBadInput}: not an engine, torn (shorter than written), checksum, version (names
  // the version that wrote it).
  explicit EngineFile(const std::filesystem::path& path);
  ~EngineFile();
  EngineFile(EngineFile&&) noexcept;
  EngineFile& operator=(EngineFile&&) noexcept;

  const Json& manifest() const { return *manifest_; }
  std::span<const EngineBlob> blobs() const { return blobs_; }
  // Null when absent.
  const EngineBlob* find_blob(std::string_view name) const;
  std::span<const std::byte> bytes(const EngineBlob& blob) const;
  // Throws Error{kBadInput} when the blob is absent.
  std::span<const std::byte> blob(std::string_view name) const;
  // The same once it agrees with its checksum; else Error{kBadInput}.
  std::span<const std::byte> verified(const EngineBlob& blob) const;
  // Reads every blob and compares; throws Error{kBadInput} naming the first that differs. progress
  // gets bytes done.
  void verify_blobs(const std::function<void(std::uint64_t)>& progress = {}) const;
  const std::filesystem::path& path() const { return file_.path(); }
  std::uint64_t file_bytes() const { return file_.size(); }

  // True when the file begins with an engine's magic (cheap; no verification).
  static bool is_engine(const std::filesystem::path& path);

 private:
  void read_blob_table(std::string_view text, std::uint64_t end);

  MappedFile file_;
  std::vector<EngineBlob> blobs_;
  std::unique_ptr<Json> manifest_;
};

// Compares blobs of an engine with their checksums, a piece at a time.
class BlobCheck {
 public:
  // `file` and `blobs` outlive it.
  BlobCheck(const EngineFile& file, std::span<const EngineBlob> blobs);
  ~BlobCheck();
  BlobCheck(const BlobCheck&) = delete;
  BlobCheck& operator=(const BlobCheck&) = delete;

  // Reads the next piece; false once every blob agrees. Throws Error{kBadInput} naming the first
  // that differs, and again when asked again.
  bool step();
  std::uint64_t done() const { return done_; }  // bytes

 private:
  void compare(const EngineBlob& blob);

  const EngineFile& file_;
  std::span<const EngineBlob> blobs_;  // the first is being read
  std::unique_ptr<BlobHasher> hash_;   // of its bytes so far
  std::uint64_t at_ = 0;               // in it
  std::uint64_t done_ = 0;
};

}  // namespace ingot
