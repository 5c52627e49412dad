#include "tests/runtime/allocation_count.h"

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

}  // namespace ingot::test

#else

namespace ingot::test {

namespace {

thread_local std::uint64_t count = 0;
std::atomic<std::uint64_t> count_of_all = 0;

void* take(std::size_t bytes, std::size_t alignment) {
  ++count;
  count_of_all.fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (void* p = std::aligned_alloc(alignment, whole == 0 ? alignment : whole)) return p;
  throw std::bad_alloc();
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

}  // namespace ingot::test

// The other forms call these.
void* operator new(std::size_t bytes) {
  return ingot::test::take(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return ingot::test::take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::align_val_t) noexcept {
  std::free(p);
}
void operator delete(void* p, std::size_t, std::align_val_t) noexcept {
  std::free(p);
}

#endif
