#pragma once

#include "ingot/sampling_params.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace ingot {

// What a count may be, ends included: one table for whoever reads or checks it.
struct CountBounds {
  std::int64_t low = 0;
  std::int64_t high = std::numeric_limits<std::int32_t>::max();
  std::string_view said;  // where the end is not the number itself

  bool hold(std::int64_t count) const { return count >= low && count <= high; }
  std::string words() const;  // "1 to 128"
};
inline constexpr CountBounds kAnswers{.low = 1, .high = 128, .said = {}};  // n, best_of, beam_width
inline constexpr CountBounds kNgramSizes{.low = 0, .high = 256, .said = "0 (off) to 256"};
inline constexpr CountBounds kTokensOfAnswer{.low = 1};
// The vocabulary's size is the end, and only a check of the whole knows it.
inline constexpr CountBounds kAlternatives{.said = "0 to the size of the vocabulary"};
inline constexpr CountBounds kTokenIds{.said = "a token id of the vocabulary"};

// "" or what is wrong, starting with the field's name: "top_p 1.2: wanted (0, 1]". Every field is
// looked at; ids are held against a vocabulary of `vocab`.
std::string check_sampling(const SamplingParams& params, std::int64_t vocab);

}  // namespace ingot
