#pragma once

#include "grammar/grammar.h"
#include "grammar/mask_machine.h"
#include "grammar/vocabulary.h"

#include <memory>

namespace ingot {

// A description made ready for one vocabulary. Shared by all sequences that want it; thread-safe.
class CompiledGrammar {
 public:
  CompiledGrammar(const Grammar& grammar, std::shared_ptr<const grammar::MaskMachine> machine,
                  std::shared_ptr<const grammar::GrammarVocabulary> vocabulary)
      : machine_(std::move(machine)),
        vocabulary_(std::move(vocabulary)),
        max_whitespace_(grammar.max_whitespace),
        bounds_whitespace_(grammar.is_json() && grammar.max_whitespace > 0) {}

  const std::shared_ptr<const grammar::MaskMachine>& machine() const { return machine_; }
  const grammar::GrammarVocabulary& vocabulary() const { return *vocabulary_; }
  int max_whitespace() const { return max_whitespace_; }
  bool bounds_whitespace() const { return bounds_whitespace_; }
  // Bytes in use now; masks are made on demand, so it grows.
  std::size_t bytes() const { return machine_->bytes(); }

 private:
  std::shared_ptr<const grammar::MaskMachine> machine_;
  std::shared_ptr<const grammar::GrammarVocabulary> vocabulary_;
  int max_whitespace_;
  bool bounds_whitespace_;
};

}  // namespace ingot
