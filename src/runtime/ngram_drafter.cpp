#include "runtime/ngram_drafter.h"

#include "base/hash.h"

#include <algorithm>
#include <bit>

namespace ingot {

namespace {

constexpr std::size_t kFirstGuess = 3;

}  // namespace

NgramDrafter::NgramDrafter(std::size_t limit, std::size_t most)
    : most_(most), next_(std::min(most, kFirstGuess)) {
  for (auto& ends : ends_) ends.resize(std::bit_ceil(2 * limit));
}

std::size_t NgramDrafter::bucket(std::span<const std::int32_t> run) const {
  return hash64(std::as_bytes(run)) & (ends_[0].size() - 1);
}

// A run is entered when the token after it is known: so the run at the end never finds itself.
void NgramDrafter::follow(std::span<const std::int32_t> tokens) {
  for (; seen_ < tokens.size(); ++seen_)
    for (std::size_t i = 0; i < kSizes.size(); ++i)
      if (seen_ >= kSizes[i])
        ends_[i][bucket(tokens.subspan(seen_ - kSizes[i], kSizes[i]))] =
            static_cast<std::uint32_t>(seen_);
}

void NgramDrafter::guess(std::span<const std::int32_t> tokens, std::size_t room,
                         std::vector<std::int32_t>& drafts) const {
  drafts.clear();
  const std::size_t wanted = std::min(next_, room);
  for (std::size_t i = 0; i < kSizes.size() && drafts.empty(); ++i) {
    if (tokens.size() < kSizes[i]) continue;
    const auto run = tokens.last(kSizes[i]);
    const std::size_t end = ends_[i][bucket(run)];
    if (end == 0 || !std::ranges::equal(tokens.subspan(end - kSizes[i], kSizes[i]), run)) continue;
    // Past the end the guess goes on with itself: what repeats will repeat.
    for (std::size_t d = 0; d < wanted; ++d)
      drafts.push_back(end + d < tokens.size() ? tokens[end + d] : drafts[end + d - tokens.size()]);
  }
}

void NgramDrafter::learn(std::size_t guessed, std::size_t held) {
  if (guessed == 0) return;
  next_ = held == guessed ? std::min(most_, 2 * guessed) : std::max<std::size_t>(1, held + 1);
}

}  // namespace ingot
