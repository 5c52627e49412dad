#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

// How often each token is in a sequence. A step costs the same however long the sequence is; memory
// goes with the number of different tokens.
class TokenCounts {
 public:
  struct Entry {
    std::int32_t id;
    std::uint32_t in_answer;  // times
    bool in_prompt;
  };

  // Nothing is allocated for the first `different` tokens.
  void reserve(std::size_t different);
  void add_prompt(std::int32_t id) { entry(id).in_prompt = true; }
  void push(std::int32_t id) { ++entry(id).in_answer; }
  // Takes back one push.
  void pop(std::int32_t id);

  // Each token once; one that was taken back may stay, with nothing counted.
  std::span<const Entry> entries() const { return entries_; }

 private:
  Entry& entry(std::int32_t id);
  std::size_t slot_of(std::int32_t id) const;
  void make_slots(std::size_t count);

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // open addressing: 1 + place in entries_, 0: free
};

// A number that nobody outside the process knows, so that no request can choose tokens that collide
// in its tables. Nothing but the time of a look-up depends on it.
std::uint64_t table_salt();

}  // namespace ingot
