#pragma once

#include "base/result.h"
#include "grammar/compiled_grammar.h"

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

namespace ingot {

// What became of the descriptions used last, refusals included, by their key. Holds at most so many
// bytes: the least recently used goes first. Grammars grow as masks are made, so entries are
// measured again when they are found. Not thread-safe.
class GrammarCache {
 public:
  using Outcome = Result<std::shared_ptr<const CompiledGrammar>>;
  explicit GrammarCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  std::optional<Outcome> find(const std::string& key);
  void insert(const std::string& key, const Outcome& outcome);
  // Takes the entry's size anew, if it is still there.
  void measure(const std::string& key);

  std::size_t bytes() const { return bytes_; }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::string key;
    Outcome outcome;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  void measure(Entry& entry);
  void shrink();

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  Entries entries_;  // most recently used first
  std::unordered_map<std::string, Entries::iterator> places_;
};

}  // namespace ingot
