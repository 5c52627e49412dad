#include "grammar/grammar_cache.h"

namespace ingot {

std::optional<GrammarCache::Outcome> GrammarCache::find(const std::string& key) {
  const auto it = places_.find(key);
  if (it == places_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, it->second);
  Outcome outcome = it->second->outcome;
  measure(*it->second);
  shrink();
  return outcome;
}

void GrammarCache::insert(const std::string& key, const Outcome& outcome) {
  if (places_.contains(key)) return;
  entries_.push_front({.key = key, .outcome = outcome});
  places_[key] = entries_.begin();
  measure(entries_.front());
  shrink();
}

void GrammarCache::measure(const std::string& key) {
  const auto it = places_.find(key);
  if (it == places_.end()) return;
  measure(*it->second);
  shrink();
}

void GrammarCache::measure(Entry& entry) {
  constexpr std::size_t kOverhead = 512;  // of lists, maps and messages
  bytes_ -= entry.bytes;
  entry.bytes =
      2 * entry.key.size() + kOverhead + (entry.outcome.ok() ? (*entry.outcome)->bytes() : 0);
  bytes_ += entry.bytes;
}

void GrammarCache::shrink() {
  while (bytes_ > max_bytes_ && !entries_.empty()) {
    bytes_ -= entries_.back().bytes;
    places_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace ingot
