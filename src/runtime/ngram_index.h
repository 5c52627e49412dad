#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ingot {

// The runs of `size` tokens of a sequence, found by their first size - 1: which tokens have come
// after these before. Each different run is kept once, so a look-up costs what it returns, and a
// step costs the same on average however long the sequence is.
class NgramIndex {
 public:
  explicit NgramIndex(std::size_t size) : size_(size) {}

  // Nothing is allocated for the first `count` tokens. `tokens` as at the last push().
  void reserve(std::size_t count, std::span<const std::int32_t> tokens);
  // `tokens` has grown by one since the last call, or since construction from nothing.
  void push(std::span<const std::int32_t> tokens);
  // Takes back the last push; `tokens` is what it was given.
  void pop(std::span<const std::int32_t> tokens);

  // Makes -infinity of the scores, [vocab], of what would repeat a run at the end of `tokens`.
  void ban_repeats(std::span<const std::int32_t> tokens, std::span<float> scores) const;

 private:
  using Tokens = std::span<const std::int32_t>;
  // Of the run that ends at a position. The chains of a bucket go from newer to older, so what was
  // pushed last is at their heads.
  struct Run {
    std::uint32_t same_start = 0;  // 1 + the next position in the bucket of the start; 0: none
    std::uint32_t same_run = 0;
    bool is_new = false;  // no earlier position has the same run; the others are in no chain
  };

  std::uint32_t& head(std::vector<std::uint32_t>& heads, Tokens key);
  bool is_known(Tokens tokens, Tokens run);
  void link(Tokens tokens, std::size_t position);
  void make_heads(std::size_t buckets, Tokens tokens);

  std::size_t size_;
  std::vector<Run> runs_;                   // by position
  std::vector<std::uint32_t> start_heads_;  // by bucket: 1 + position; 0: none
  std::vector<std::uint32_t> run_heads_;
};

}  // namespace ingot
