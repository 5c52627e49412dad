#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

// The engine that turns grammars into token masks: xgrammar, which no other file sees. Its
// exceptions come out as Error{kRequest}.
namespace ingot::grammar {

// The tokens that masks are about.
struct TokenTable {
  std::vector<std::string> bytes;     // by id; "": never allowed
  int rows = 0;                       // bits of a mask; ids from bytes.size() on are never allowed
  std::vector<std::int32_t> end_ids;  // allowed exactly where the text is whole
};

class MaskMachine;

// How long masks may be made: processor time of the calling thread, in seconds. Goes down as it is
// used.
struct MaskBudget {
  double seconds = 0;
  std::function<bool()> stop = {};  // asked now and then, while masks are made; may be empty
};

// Where one sequence stands. Not thread-safe.
class MaskState {
 public:
  explicit MaskState(std::shared_ptr<const MaskMachine> machine);
  // Goes its own way from here on; the work done so far counts for both.
  MaskState(const MaskState& other);
  MaskState(MaskState&&) noexcept;
  MaskState& operator=(MaskState&&) noexcept;
  ~MaskState();

  // Sets bit id % 32 of word id / 32 for every token that may come next; all others are cleared.
  // False where the budget does not suffice for the masks that nobody wanted before: what was made
  // of them is kept, `words` are of no use, and the call may be repeated, also by a copy in another
  // thread. Then it finds them made.
  bool fill(std::span<std::uint32_t> words, MaskBudget& budget);
  // True, and nothing is followed any more, when is_exhausted().
  bool accept(std::int32_t token);
  void rollback(int tokens);
  bool is_complete() const;
  // Following the grammar took too long: from now on no mask allows anything.
  bool is_exhausted() const;
  // Seconds of processor time that following it took since this was asked last: masks made for the
  // first time are not in it.
  double take_seconds();
  bool is_ended() const;
  std::string forced_text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One grammar over one vocabulary. Masks are made where they are first needed and kept;
// thread-safe.
class MaskMachine {
 public:
  ~MaskMachine();
  // Bytes in use now; grows with the masks made.
  std::size_t bytes() const;
  // Makes masks ahead until all are made or the budget is used.
  void warm(const MaskBudget& budget) const;

 private:
  friend class MaskEngine;
  friend class MaskState;
  struct Impl;
  explicit MaskMachine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class MaskEngine {
 public:
  // Whether this build has the engine (INGOT_GRAMMAR).
  static bool available();

  explicit MaskEngine(const TokenTable& tokens);
  ~MaskEngine();
  // `ebnf` is print_ebnf's. Thread-safe.
  std::shared_ptr<const MaskMachine> compile(const std::string& ebnf) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::grammar
