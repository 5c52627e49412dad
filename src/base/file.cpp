#include "base/file.h"

#include "base/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ingot {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

struct FileDescriptor {
  int fd;
  ~FileDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

void write_all(int fd, const char* data, std::size_t size, std::uint64_t offset,
               const std::filesystem::path& path) {
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, data, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail(ErrorCode::kSystem, "[file.write] {}: {}", path.string(), std::strerror(errno));
    data += n;
    size -= static_cast<std::size_t>(n);
    offset += static_cast<std::uint64_t>(n);
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

std::string by_descriptor(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

// Names of devices and of descriptors, which no file may take the place of.
bool is_system_path(const std::filesystem::path& path) {
  return path.native().starts_with("/dev/") || path.native().starts_with("/proc/");
}

// A link stays a link: what it points to is written. Links to descriptors are left as they are.
std::filesystem::path without_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as the system's own limit
  std::error_code error;
  for (int i = 0; i < kMostLinks; ++i) {
    if (is_system_path(path)) return path;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) return path;
    path = path.parent_path() / target;  // an absolute target replaces the whole
  }
  fail(ErrorCode::kSystem, "[file.open] {}: {}", path.string(), std::strerror(ELOOP));
}

// A file that has no name yet, so that nothing is left of it even when the process is killed. -1
// where the file system has none, or where it could not be given a name later (no /proc).
int open_nameless(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0644);
  if (fd < 0 || ::access(by_descriptor(fd).c_str(), F_OK) == 0) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // Without waiting: a pipe that nobody writes to would hold the open call for ever.
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0)
    fail(ErrorCode::kSystem, "[file.open] {}: {}", path.string(), std::strerror(errno));
  struct stat info{};
  if (::fstat(file.fd, &info) != 0)
    fail(ErrorCode::kSystem, "[file.stat] {}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    fail(ErrorCode::kBadInput, "[file.open] {}: not a regular file", path.string());
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (p == MAP_FAILED)
    fail(ErrorCode::kSystem, "[file.map] {}: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(p);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    path_ = std::move(other.path_);
  }
  return *this;
}

std::string read_file(const std::filesystem::path& path, std::size_t max_bytes) {
  const FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    fail(ErrorCode::kSystem, "[file.open] {}: {}", path.string(), std::strerror(errno));
  std::string text;
  std::array<char, 1 << 16> chunk;
  while (true) {
    const ssize_t n = ::read(file.fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ErrorCode::kSystem, "[file.read] {}: {}", path.string(), std::strerror(errno));
    if (n == 0) return text;
    if (text.size() + static_cast<std::size_t>(n) > max_bytes)
      fail(ErrorCode::kBadInput, "[file.read] {}: larger than {} bytes", path.string(), max_bytes);
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(without_links(std::move(path))) {
  struct stat info{};
  const bool there = ::stat(path_.c_str(), &info) == 0;
  if (path_ == kStandardOutput) {
    direct_ = true;  // as it was opened: where it stands, appending or not
    fd_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  } else if (there && (!S_ISREG(info.st_mode) || is_system_path(path_))) {
    direct_ = true;
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  }
  if (direct_) {
    if (fd_ < 0) fail_with_errno("open");
    return;
  }
  if (path_.empty()) fail(ErrorCode::kUsage, "[file.create] the name of the file is empty");
  static std::atomic<int> counter{0};
  temporary_ = path_;
  temporary_ += fmt::format(".tmp{}.{}", ::getpid(), counter.fetch_add(1));
  fd_ = open_nameless(folder_of(path_));
  nameless_ = fd_ >= 0;
  if (!nameless_) fd_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_with_errno("create");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  // Never committed, and not another's by now.
  if (!direct_ && !nameless_ && has_its_name()) ::unlink(temporary_.c_str());
  ::close(fd_);
}

void AtomicFile::fail_with_errno(std::string_view what) const {
  fail(ErrorCode::kSystem, "[file.{}] {}: {}", what, path_.string(), std::strerror(errno));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  position_ += bytes.size();
  if (bytes.size() >= kBufferBytes) {
    write_next(reinterpret_cast<const char*>(bytes.data()), bytes.size(), position_ - bytes.size());
  } else {
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  flush();
  if (direct_ && ::lseek(fd_, 0, SEEK_CUR) < 0)
    fail(ErrorCode::kSystem, "[file.write] {}: cannot go back in it; give the name of a file",
         path_.string());
  if (offset + bytes.size() > position_)
    fail(ErrorCode::kBug, "[file.write_at] {} bytes at {} of {}", bytes.size(), offset, position_);
  write_all(fd_, reinterpret_cast<const char*>(bytes.data()), bytes.size(), offset, path_);
}

void AtomicFile::pad_to(std::uint64_t alignment) {
  const std::uint64_t rest = position_ % alignment;
  if (rest != 0) write(std::string(alignment - rest, '\0'));
}

void AtomicFile::write_next(const char* data, std::size_t size, std::uint64_t offset) {
  if (!direct_) return write_all(fd_, data, size, offset, path_);
  while (size > 0) {
    const ssize_t n = ::write(fd_, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_with_errno("write");
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

void AtomicFile::flush() {
  write_next(buffer_.data(), buffer_.size(), position_ - buffer_.size());
  buffer_.clear();
}

std::filesystem::path AtomicFile::partial() const {
  std::filesystem::path path = path_;
  return path += ".partial";
}

// A link cannot replace what has the name already, a rename can.
void AtomicFile::name(const std::filesystem::path& path) {
  if (nameless_ && ::linkat(AT_FDCWD, by_descriptor(fd_).c_str(), AT_FDCWD, temporary_.c_str(),
                            AT_SYMLINK_FOLLOW) != 0)
    fail_with_errno("link");
  nameless_ = false;
  if (::rename(temporary_.c_str(), path.c_str()) != 0) fail_with_errno("rename");
}

void AtomicFile::show_partial() {
  if (direct_ || shown_) return;
  name(partial());
  temporary_ = partial();
  shown_ = true;
}

bool AtomicFile::has_its_name() const {
  struct stat named{}, own{};
  return ::stat(temporary_.c_str(), &named) == 0 && ::fstat(fd_, &own) == 0 &&
         named.st_ino == own.st_ino && named.st_dev == own.st_dev;
}

void AtomicFile::update() {
  flush();
  if (shown_ && !has_its_name())
    fail(ErrorCode::kSystem, "[file.update] {}: removed or replaced while it was written",
         temporary_.string());
}

std::filesystem::path AtomicFile::commit_partial() {
  if (direct_)
    flush();
  else
    path_ = partial(), commit();
  return path_;
}

void AtomicFile::commit() {
  update();
  if (direct_) {
    if (::close(std::exchange(fd_, -1)) != 0) fail_with_errno("close");
    return;
  }
  if (::fsync(fd_) != 0) fail_with_errno("fsync");
  name(path_);
  ::close(std::exchange(fd_, -1));
  // The rename itself is durable only once the folder is.
  const FileDescriptor dir{::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (dir.fd >= 0) ::fsync(dir.fd);
}

}  // namespace ingot
