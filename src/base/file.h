#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace ingot {

inline constexpr std::string_view kStandardOutput = "/dev/stdout";

// A read-only mapping of a whole file. The mapping keeps the inode: replacing the file does no
// harm.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws Error{kSystem} when it cannot be opened or mapped, kBadInput when it is not a regular
  // file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  std::size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::filesystem::path path_;
};

// Reads a whole file of at most max_bytes. Throws Error{kSystem} or {kBadInput}.
std::string read_file(const std::filesystem::path& path,
                      std::size_t max_bytes = std::size_t{1} << 30);

// Writes to a file without a name in `path`'s folder (where the file system has none: under a
// temporary name), then fsync and rename on commit(). Without commit() (an exception, a killed
// process) nothing is left behind. All failures throw Error{kSystem} with the path and the system's
// reason ("No space left on device"). What is there and no regular file (a pipe, /dev/stdout)
// cannot be replaced and is written as it comes; of a link, the target is written.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Overwrites already written bytes at `offset` (a header completed at the end).
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Appends zero bytes up to a multiple of `alignment`.
  void pad_to(std::uint64_t alignment);
  std::uint64_t position() const { return position_; }
  void commit();
  // Instead of commit(), for work that broke off and is worth keeping: what is written so far
  // appears as path.partial. Returns where it is; what is written as it comes is there already.
  std::filesystem::path commit_partial();
  // From now on what is written stands in path.partial, in place of what an earlier run left there,
  // as of each update(); commit() renames it, and without either commit it is removed. What ends
  // the process leaves it.
  void show_partial();
  // What is written is in the file now. Fails when path.partial is there no longer.
  void update();

 private:
  void name(const std::filesystem::path& path);
  std::filesystem::path partial() const;
  bool has_its_name() const;
  void flush();
  void write_next(const char* data, std::size_t size, std::uint64_t offset);
  [[noreturn]] void fail_with_errno(std::string_view what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  bool direct_ = false;    // written as it comes
  bool nameless_ = false;  // until it is named
  bool shown_ = false;     // as path.partial, which temporary_ is then
  std::uint64_t position_ = 0;
  std::string buffer_;  // small writes are gathered
};

}  // namespace ingot
