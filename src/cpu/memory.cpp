#include "cpu/memory.h"

#include "base/error.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>

namespace ingot::cpu {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// The number in a file of the control group; "max" and what is not there are no limit.
std::size_t number_in(const std::string& path, std::size_t otherwise) {
  std::ifstream in(path);
  std::size_t value = 0;
  return in >> value ? value : otherwise;
}

struct GroupMemory {
  std::size_t limit;
  std::size_t used;
};

GroupMemory group_memory(const std::string& root) {
  const std::string v2 = root + "sys/fs/cgroup/";
  const std::string v1 = root + "sys/fs/cgroup/memory/";
  return {std::min(number_in(v2 + "memory.max", kNoLimit),
                   number_in(v1 + "memory.limit_in_bytes", kNoLimit)),
          number_in(v2 + "memory.current", number_in(v1 + "memory.usage_in_bytes", 0))};
}

class PagesBuffer final : public Buffer {
 public:
  PagesBuffer(std::byte* mapping, std::size_t mapped, std::byte* data, std::size_t bytes)
      : mapping_(mapping), mapped_(mapped), data_(data), bytes_(bytes) {}
  ~PagesBuffer() override { munmap(mapping_, mapped_); }
  PagesBuffer(const PagesBuffer&) = delete;
  PagesBuffer& operator=(const PagesBuffer&) = delete;
  std::byte* data() const override { return data_; }
  std::size_t bytes() const override { return bytes_; }

 private:
  std::byte* mapping_;
  std::size_t mapped_;
  std::byte* data_;
  std::size_t bytes_;
};

[[noreturn]] void does_not_fit(std::size_t bytes, std::string_view purpose) {
  const MemoryInfo memory = memory_info();
  fail(ErrorCode::kDoesNotFit, "[cpu.memory] {} bytes for {}, {} of {} are free", bytes, purpose,
       memory.free, memory.total);
}

}  // namespace

MemoryInfo memory_info(const std::string& root) {
  std::ifstream in(root + "proc/meminfo");
  MemoryInfo info;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::size_t kib = 0;
    words >> name >> kib;
    if (name == "MemTotal:") info.total = kib * 1024;
    if (name == "MemAvailable:") info.free = kib * 1024;
  }
  const GroupMemory group = group_memory(root);
  if (group.limit < info.total) {
    info.total = group.limit;
    info.free = std::min(info.free, group.limit - std::min(group.limit, group.used));
  }
  return info;
}

std::unique_ptr<Buffer> allocate_pages(std::size_t bytes, std::string_view purpose, bool present) {
  if (bytes > memory_info().free) does_not_fit(bytes, purpose);
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kPage - 1) / kPage * kPage;
  const std::size_t huge = size / kHugePage * kHugePage;
  const std::size_t align = huge > 0 ? kHugePage : kPage;
  const std::size_t mapped = huge > 0 ? size + kHugePage : size;
  void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) does_not_fit(bytes, purpose);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  auto* start = static_cast<std::byte*>(mapping);
  auto* data = start + ((address + align - 1) / align * align - address);
  auto buffer = std::make_unique<PagesBuffer>(start, mapped, data, bytes);
  // What is no whole huge page stays in small ones, also where the system makes huge pages unasked:
  // nothing takes more than it says.
  madvise(start, mapped, MADV_NOHUGEPAGE);
  if (huge > 0) madvise(data, huge, MADV_HUGEPAGE);
  if (!present) return buffer;
#ifdef MADV_POPULATE_WRITE
  constexpr int kPopulate = MADV_POPULATE_WRITE;
#else
  constexpr int kPopulate = 23;  // Linux 5.14
#endif
  if (madvise(data, size, kPopulate) != 0) {
    for (std::size_t at = 0; at < size; at += kPage)
      *const_cast<volatile std::byte*>(data + at) = std::byte{0};
  }
  return buffer;
}

}  // namespace ingot::cpu
