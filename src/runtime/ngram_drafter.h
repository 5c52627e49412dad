#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

// Guesses what comes next: what came after the same few tokens before (prompt lookup, A. Saxena,
// 2023). Follows a sequence token by token; a guess costs the same however long it is, and nothing
// is allocated after construction.
class NgramDrafter {
 public:
  // Of sequences of up to `limit` tokens; guesses up to `most` tokens at once.
  NgramDrafter(std::size_t limit, std::size_t most);

  // `tokens` has grown since the last call, or since construction from nothing.
  void follow(std::span<const std::int32_t> tokens);
  // Guesses of what follows all of `tokens`, which follow() has seen: at most `room`.
  void guess(std::span<const std::int32_t> tokens, std::size_t room,
             std::vector<std::int32_t>& drafts) const;
  // How the last guesses did: the next are as many as are likely to hold.
  void learn(std::size_t guessed, std::size_t held);

 private:
  static constexpr std::array<std::size_t, 2> kSizes = {3, 2};  // the longer is asked first
  std::size_t bucket(std::span<const std::int32_t> run) const;

  std::size_t most_;
  std::size_t next_;  // how many to guess
  std::size_t seen_ = 0;
  // By hash of a run of kSizes tokens: where the latest like it ended. What else has the hash is
  // lost; what is found is compared.
  std::array<std::vector<std::uint32_t>, kSizes.size()> ends_;
};

}  // namespace ingot
