#include "runtime/ngram_index.h"

#include "base/check.h"
#include "runtime/logit_row.h"
#include "runtime/token_counts.h"

#include <algorithm>
#include <bit>

namespace ingot {

namespace {

std::uint64_t hash_of(std::span<const std::int32_t> tokens) {
  std::uint64_t hash = table_salt();
  for (const std::int32_t id : tokens) {
    hash = (hash ^ static_cast<std::uint64_t>(id)) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 29;
  }
  hash *= 0xd6e8feb86659fd93ull;
  return hash ^ (hash >> 32);
}

}  // namespace

std::uint32_t& NgramIndex::head(std::vector<std::uint32_t>& heads, Tokens key) {
  return heads[hash_of(key) & (heads.size() - 1)];
}

bool NgramIndex::is_known(Tokens tokens, Tokens run) {
  for (std::uint32_t at = head(run_heads_, run); at != 0; at = runs_[at - 1].same_run)
    if (std::ranges::equal(run, tokens.subspan(at - size_, size_))) return true;
  return false;
}

// Puts the run at `position`, a new one, at the heads of its chains.
void NgramIndex::link(Tokens tokens, std::size_t position) {
  const Tokens run = tokens.subspan(position + 1 - size_, size_);
  std::uint32_t& by_start = head(start_heads_, run.first(size_ - 1));
  std::uint32_t& by_run = head(run_heads_, run);
  runs_[position].same_start = by_start;
  runs_[position].same_run = by_run;
  by_start = by_run = static_cast<std::uint32_t>(position + 1);
}

void NgramIndex::make_heads(std::size_t buckets, Tokens tokens) {
  start_heads_.assign(buckets, 0);
  run_heads_.assign(buckets, 0);
  for (std::size_t i = 0; i < runs_.size(); ++i)
    if (runs_[i].is_new) link(tokens, i);
}

void NgramIndex::reserve(std::size_t count, Tokens tokens) {
  runs_.reserve(count);
  if (start_heads_.size() < count) make_heads(std::bit_ceil(count), tokens);
}

void NgramIndex::push(Tokens tokens) {
  check(tokens.size() == runs_.size() + 1, "an index of runs grows token by token");
  if (runs_.size() >= start_heads_.size())
    make_heads(std::max<std::size_t>(64, start_heads_.size() * 2), tokens);
  runs_.emplace_back();
  if (tokens.size() < size_) return;
  runs_.back().is_new = !is_known(tokens, tokens.last(size_));
  if (runs_.back().is_new) link(tokens, tokens.size() - 1);
}

void NgramIndex::pop(Tokens tokens) {
  check(tokens.size() == runs_.size() && !runs_.empty(), "only what was pushed is taken back");
  if (runs_.back().is_new) {
    const Tokens run = tokens.last(size_);
    head(start_heads_, run.first(size_ - 1)) = runs_.back().same_start;
    head(run_heads_, run) = runs_.back().same_run;
  }
  runs_.pop_back();
}

void NgramIndex::ban_repeats(Tokens tokens, std::span<float> scores) const {
  if (tokens.size() < size_) return;  // not one run yet
  const Tokens start = tokens.last(size_ - 1);
  const std::size_t bucket = hash_of(start) & (start_heads_.size() - 1);
  for (std::uint32_t at = start_heads_[bucket]; at != 0; at = runs_[at - 1].same_start)
    if (std::ranges::equal(start, tokens.subspan(at - size_, size_ - 1)))
      ban(tokens[at - 1], scores);
}

}  // namespace ingot
