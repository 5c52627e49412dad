#include "tests/runtime/allocation_count.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// The sanitizers have operators of their own, which check what these would not.
namespace ingot::test {

bool counts_allocations() {
  return false;
}

std::uint64_t allocations() {
  return 0;
}

std::uint64_t allocations_of_all_threads() {
  return 0;
}

std::int64_t live_bytes() {
  return 0;
}

}  // namespace ingot::test

#else

namespace ingot::test {

namespace {

thread_local std::uint64_t count = 0;
std::atomic<std::uint64_t> count_of_all = 0;
std::atomic<std::int64_t> live = 0;

void* take(std::size_t bytes, std::size_t alignment) {
  ++count;
  count_of_all.fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  void* const p = std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
  if (!p) throw std::bad_alloc();
  live.fetch_add(static_cast<std::int64_t>(malloc_usable_size(p)), std::memory_order_relaxed);
  return p;
}

void give_back(void* p) noexcept {
  if (p)
    live.fetch_sub(static_cast<std::int64_t>(malloc_usable_size(p)), std::memory_order_relaxed);
  std::free(p);
}

}  // namespace

bool counts_allocations() {
  return true;
}

std::uint64_t allocations() {
  return count;
}

std::uint64_t allocations_of_all_threads() {
  return count_of_all;
}

std::int64_t live_bytes() {
  return live.load(std::memory_order_relaxed);
}

}  // namespace ingot::test

// The other forms call these.
void* operator new(std::size_t bytes) {
  return ingot::test::take(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return ingot::test::take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept {
  ingot::test::give_back(p);
}
void operator delete(void* p, std::size_t) noexcept {
  ingot::test::give_back(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  ingot::test::give_back(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  ingot::test::give_back(p);
}

#endif
