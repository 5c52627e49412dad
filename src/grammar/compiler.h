#pragma once

#include "base/result.h"
#include "grammar/compiled_grammar.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

namespace ingot {

struct GrammarCompilerOptions {
  grammar::GrammarLimits limits;
  std::size_t cache_bytes = std::size_t{64} << 20;  // of grammars kept for the next request
  int threads = 2;
  int max_waiting = 64;       // grammars that wait for a thread
  double warm_seconds = 0.2;  // masks made ahead, when nothing else waits
};

struct GrammarCompilerStatistics {
  std::int64_t hits = 0;  // grammars found ready
  std::int64_t misses = 0;
  std::int64_t cached = 0;
  std::size_t cached_bytes = 0;
  int waiting = 0;
  int running = 0;
};

using CompiledGrammarPtr = std::shared_ptr<const CompiledGrammar>;

class GrammarCompiler;
struct GrammarJob;
struct MaskJob;

// A grammar that is being made ready. Dropping it says that nobody here wants it any more: a
// compilation that nobody wants is stopped.
class PendingGrammar {
 public:
  PendingGrammar() = default;
  PendingGrammar(PendingGrammar&& other) noexcept = default;
  PendingGrammar& operator=(PendingGrammar&& other) noexcept;
  ~PendingGrammar();

  // Whether result() answers at once. Never blocks.
  bool ready() const;
  // Waits. Error{kRequest} "[guided...] what, where" for a description that is wrong, not
  // supported, too large or too slow to compile.
  Result<CompiledGrammarPtr> result() const;

 private:
  friend class GrammarCompiler;
  friend class PendingMasks;
  struct Shared;
  void release();
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<GrammarJob> job_;
};

// Masks that are being made for the next token of one sequence. Dropping it stops that.
class PendingMasks {
 public:
  PendingMasks() = default;
  PendingMasks(PendingMasks&& other) noexcept = default;
  PendingMasks& operator=(PendingMasks&& other) noexcept;
  ~PendingMasks();

  // Never blocks.
  bool ready() const;
  struct Outcome {
    bool made = false;   // false: the time did not suffice
    double seconds = 0;  // of a processor
  };
  // What became of it, once it is ready.
  Outcome result() const;

 private:
  friend class GrammarCompiler;
  void release();
  std::shared_ptr<PendingGrammar::Shared> shared_;
  std::shared_ptr<MaskJob> job_;
};

// Makes descriptions ready in threads of its own and keeps what was used lately. Thread-safe. The
// tokenizer is only needed by the constructor.
class GrammarCompiler {
 public:
  GrammarCompiler(const Tokenizer& tokenizer, const GrammarVocabularyOptions& vocabulary = {},
                  const GrammarCompilerOptions& options = {});
  // Stops what runs; results that nobody fetched are errors.
  ~GrammarCompiler();
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;

  // Equal descriptions are compiled once, also while they are being compiled. `notify` is called
  // once, from any thread, when ready() has become true; not if it is so at once.
  PendingGrammar submit(const Grammar& grammar, std::function<void()> notify = {});
  // The masks that `matcher`, a copy of the sequence's, needs now, which take long: at most so many
  // seconds of a processor. `notify` as above.
  PendingMasks make_masks(GrammarMatcher matcher, double seconds, std::function<void()> notify);
  // submit and wait.
  Result<CompiledGrammarPtr> compile(const Grammar& grammar);

  GrammarCompilerStatistics statistics() const;

 private:
  std::shared_ptr<PendingGrammar::Shared> shared_;
};

}  // namespace ingot
