#include "runtime/token_counts.h"

#include "base/check.h"

#include <bit>
#include <random>

namespace ingot {

std::uint64_t table_salt() {
  static const std::uint64_t salt = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  return salt;
}

// The slot that holds `id`, or the free one where it belongs. There is one.
std::size_t TokenCounts::slot_of(std::int32_t id) const {
  std::uint64_t hash = (static_cast<std::uint64_t>(id) ^ table_salt()) * 0x9e3779b97f4a7c15ull;
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93ull;
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = static_cast<std::size_t>(hash >> 32) & mask;
  while (slots_[at] != 0 && entries_[slots_[at] - 1].id != id) at = (at + 1) & mask;
  return at;
}

void TokenCounts::make_slots(std::size_t count) {
  slots_.assign(count, 0);
  for (std::size_t i = 0; i < entries_.size(); ++i)
    slots_[slot_of(entries_[i].id)] = static_cast<std::uint32_t>(i + 1);
}

void TokenCounts::reserve(std::size_t different) {
  entries_.reserve(different);
  if (slots_.size() <= 2 * different) make_slots(std::bit_ceil(2 * different + 1));
}

TokenCounts::Entry& TokenCounts::entry(std::int32_t id) {
  if (entries_.size() * 2 >= slots_.size()) make_slots(slots_.empty() ? 64 : slots_.size() * 2);
  std::uint32_t& slot = slots_[slot_of(id)];
  if (slot == 0) {
    entries_.push_back({.id = id, .in_answer = 0, .in_prompt = false});
    slot = static_cast<std::uint32_t>(entries_.size());
  }
  return entries_[slot - 1];
}

void TokenCounts::pop(std::int32_t id) {
  Entry& e = entry(id);
  check(e.in_answer > 0, "a token is taken back that was not pushed");
  --e.in_answer;
}

}  // namespace ingot
