#include "formats/zip_reader.h"

#include "base/error.h"
#include "formats/byte_reader.h"

#include <algorithm>
#include <cstdint>
#include <utility>

// APPNOTE.TXT 6.3.10 of PKWARE: sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14
// to 4.3.16 (end records), 4.5.3 (zip64 extra field).
namespace ingot {

namespace {

constexpr std::uint64_t kMaxEntries = 1'000'000;
constexpr std::uint64_t kEndBytes = 22;
constexpr std::uint64_t kLocatorBytes = 20;
constexpr std::uint64_t kIn64 = 0xffffffff;  // "see the zip64 field"

constexpr std::uint32_t kLocalMagic = 0x04034b50;
constexpr std::uint32_t kCentralMagic = 0x02014b50;
constexpr std::uint32_t kEndMagic = 0x06054b50;
constexpr std::uint32_t kEnd64Magic = 0x06064b50;
constexpr std::uint32_t kLocatorMagic = 0x07064b50;

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  std::vector<ZipEntry> entries() {
    const Directory directory = find_directory();
    if (directory.count > kMaxEntries)
      refuse("{} entries, at most {} are read", directory.count, kMaxEntries);
    ByteReader reader = at(directory.offset, directory.bytes, "the directory");
    std::vector<ZipEntry> result;
    for (std::uint64_t i = 0; i < directory.count; ++i) result.push_back(read_entry(reader));
    return result;
  }

 private:
  struct Directory {
    std::uint64_t count;
    std::uint64_t bytes;
    std::uint64_t offset;
  };
  struct Sizes {
    std::uint64_t plain;
    std::uint64_t stored;
    std::uint64_t offset;
  };

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kBadInput, "[zip] {}: {}", file_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  ByteReader at(std::uint64_t offset, std::uint64_t size, std::string_view what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      refuse("truncated: {} of {} bytes at {}, the file holds {}", what, size, offset,
             bytes_.size());
    return ByteReader(bytes_.subspan(offset, size), "zip", file_);
  }

  // The end record is the last thing in the file but for a comment of up to 64 KiB.
  std::uint64_t find_end() const {
    if (bytes_.size() >= kEndBytes) {
      const std::uint64_t last = bytes_.size() - kEndBytes;
      const std::uint64_t first = last > 0xffff ? last - 0xffff : 0;
      for (std::uint64_t offset = last + 1; offset-- > first;) {
        if (at(offset, 4, "the end").number<std::uint32_t>("the end") == kEndMagic) return offset;
      }
    }
    refuse("no zip archive, or truncated: its end record is missing");
  }

  Directory find_directory() const {
    const std::uint64_t end = find_end();
    ByteReader reader = at(end, kEndBytes, "the end record");
    reader.take(4 + 2 + 2 + 2, "the end record");
    Directory directory{};
    directory.count = reader.number<std::uint16_t>("the end record");
    directory.bytes = reader.number<std::uint32_t>("the end record");
    directory.offset = reader.number<std::uint32_t>("the end record");
    if (directory.count != 0xffff && directory.bytes != kIn64 && directory.offset != kIn64)
      return directory;
    if (end < kLocatorBytes) refuse("truncated: no zip64 end record");
    ByteReader locator = at(end - kLocatorBytes, kLocatorBytes, "the zip64 locator");
    if (locator.number<std::uint32_t>("the locator") != kLocatorMagic) return directory;
    locator.take(4, "the locator");
    ByteReader end64 = at(locator.number<std::uint64_t>("the locator"), 56, "the zip64 end record");
    if (end64.number<std::uint32_t>("the zip64 end record") != kEnd64Magic)
      refuse("the zip64 end record is not where the locator says");
    end64.take(8 + 2 + 2 + 4 + 4 + 8, "the zip64 end record");
    directory.count = end64.number<std::uint64_t>("the zip64 end record");
    directory.bytes = end64.number<std::uint64_t>("the zip64 end record");
    directory.offset = end64.number<std::uint64_t>("the zip64 end record");
    return directory;
  }

  ZipEntry read_entry(ByteReader& reader) const {
    if (reader.number<std::uint32_t>("a directory entry") != kCentralMagic)
      refuse("the directory is broken at byte {}", reader.position());
    reader.take(4, "versions");
    const auto flags = reader.number<std::uint16_t>("flags");
    const auto method = reader.number<std::uint16_t>("the method");
    reader.take(4 + 4, "time and checksum");
    Sizes sizes{};
    sizes.stored = reader.number<std::uint32_t>("a size");
    sizes.plain = reader.number<std::uint32_t>("a size");
    const auto name_bytes = reader.number<std::uint16_t>("a name's length");
    const auto extra_bytes = reader.number<std::uint16_t>("an extra field's length");
    const auto comment_bytes = reader.number<std::uint16_t>("a comment's length");
    reader.take(2 + 2 + 4, "attributes");
    sizes.offset = reader.number<std::uint32_t>("an offset");
    ZipEntry entry;
    entry.name = reader.text(name_bytes, "a name");
    widen(sizes, reader.take(extra_bytes, "an extra field"));
    reader.take(comment_bytes, "a comment");
    if (flags & 1) refuse("entry {} is encrypted", entry.name);
    if (method != 0 || sizes.stored != sizes.plain)
      refuse("entry {} is compressed (method {}), only stored entries are read", entry.name,
             method);
    entry.bytes = data_of(entry.name, sizes);
    return entry;
  }

  // Fields that do not fit into 32 bits stand in extra field 1, in this order.
  void widen(Sizes& sizes, std::span<const std::byte> extra) const {
    ByteReader reader(extra, "zip", file_);
    while (reader.remaining() >= 4) {
      const auto id = reader.number<std::uint16_t>("an extra field");
      const auto size = reader.number<std::uint16_t>("an extra field");
      ByteReader field(reader.take(size, "an extra field"), "zip", file_);
      if (id != 1) continue;
      for (std::uint64_t* value : {&sizes.plain, &sizes.stored, &sizes.offset})
        if (*value == kIn64) *value = field.number<std::uint64_t>("a zip64 field");
    }
  }

  // The local header repeats the name and has an extra field of its own (torch pads with it).
  std::span<const std::byte> data_of(std::string_view name, const Sizes& sizes) const {
    ByteReader reader = at(sizes.offset, 30, name);
    if (reader.number<std::uint32_t>("a local header") != kLocalMagic)
      refuse("entry {} has no local header at byte {}", name, sizes.offset);
    reader.take(22, "a local header");
    const std::uint64_t name_bytes = reader.number<std::uint16_t>("a name's length");
    const std::uint64_t extra_bytes = reader.number<std::uint16_t>("an extra field's length");
    const std::uint64_t begin = sizes.offset + 30 + name_bytes + extra_bytes;
    return at(begin, sizes.stored, name).take(sizes.stored, name);
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
};

}  // namespace

std::vector<ZipEntry> read_stored_zip(std::span<const std::byte> archive, std::string_view file) {
  return ZipReader(archive, file).entries();
}

}  // namespace ingot
