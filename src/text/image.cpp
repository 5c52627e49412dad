#include "text/image.h"

#include "base/check.h"
#include "base/hash.h"

#include <bit>
#include <cstring>

namespace ingot {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kMagic[8] = {'I', 'N', 'G', 'O', 'T', 'T', 'O', 'K'};
constexpr std::uint32_t kVersion = 1;

struct SectionEntry {
  std::uint64_t offset;
  std::uint64_t size;
};

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t section_count;
  std::uint64_t total_size;
  std::uint64_t checksum;  // of everything behind it
  SectionEntry sections[kSectionCount];
};
static_assert(offsetof(Header, checksum) == kImageChecksumOffset);

constexpr std::size_t kAlignment = 16;
constexpr std::size_t kCovered = kImageChecksumOffset + sizeof(std::uint64_t);

std::size_t align_up(std::size_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

std::uint64_t image_checksum(std::span<const std::byte> image) {
  return image.size() < kCovered ? 0 : hash64(image.subspan(kCovered));
}

std::vector<std::byte> ImageWriter::finish() const {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.section_count = kSectionCount;
  std::size_t position = align_up(sizeof(Header));
  for (std::size_t i = 0; i < kSectionCount; ++i) {
    header.sections[i] = {position, sections_[i].size()};
    position = align_up(position + sections_[i].size());
  }
  header.total_size = position;
  std::vector<std::byte> image(position);
  std::memcpy(image.data(), &header, sizeof header);
  for (std::size_t i = 0; i < kSectionCount; ++i)
    if (!sections_[i].empty())
      std::memcpy(image.data() + header.sections[i].offset, sections_[i].data(),
                  sections_[i].size());
  const std::uint64_t checksum = image_checksum(image);
  std::memcpy(image.data() + kImageChecksumOffset, &checksum, sizeof checksum);
  return image;
}

ImageView::ImageView(std::span<const std::byte> image) {
  constexpr auto kCode = ErrorCode::kBadInput;
  Header header;
  if (image.size() < sizeof header)
    fail(kCode, "[tokenizer.image] {} bytes, wanted at least {}", image.size(), sizeof header);
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    fail(kCode, "[tokenizer.image] not a tokenizer image: wrong magic");
  if (header.version != kVersion || header.section_count != kSectionCount)
    fail(kCode, "[tokenizer.image] version {} with {} sections, wanted {} with {}: build it anew",
         header.version, header.section_count, kVersion, kSectionCount);
  if (header.total_size < sizeof header || header.total_size > image.size())
    fail(kCode, "[tokenizer.image] {} bytes, header says {}: torn file", image.size(),
         header.total_size);
  all_ = image.first(header.total_size);
  if (image_checksum(all_) != header.checksum)
    fail(kCode, "[tokenizer.image] checksum differs: the image is damaged");
  check(reinterpret_cast<std::uintptr_t>(image.data()) % 8 == 0, "image is not aligned");
  for (std::size_t i = 0; i < kSectionCount; ++i) {
    const SectionEntry& entry = header.sections[i];
    if (entry.offset % kAlignment != 0 || entry.offset > all_.size() ||
        entry.size > all_.size() - entry.offset)
      fail(kCode, "[tokenizer.image] section {} lies outside the image", i);
    sections_[i] = {reinterpret_cast<const char*>(all_.data()) + entry.offset,
                    static_cast<std::size_t>(entry.size)};
  }
}

void ImageView::fail_size(Section section) {
  fail(ErrorCode::kBadInput, "[tokenizer.image] section {} has a broken size",
       static_cast<std::uint32_t>(section));
}

}  // namespace ingot
