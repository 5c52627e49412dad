#include "grammar/mask_machine.h"

#include "base/check.h"
#include "base/error.h"

#if INGOT_HAVE_XGRAMMAR

#include <compiled_grammar_impl.h>
#include <grammar_impl.h>
#include <time.h>
#include <watch.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace xgrammar {

// xgrammar asks its user for these. What it warns of has been refused before it sees the grammar.
void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}
void LogMessageImpl(const std::string&, int, int, const std::string&) {}

}  // namespace xgrammar

namespace ingot::grammar {

namespace {

// Thrown through xgrammar, past its handlers.
struct OutOfTime {
  bool making;
};

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Ends what this thread does in xgrammar where it takes too long: the masks of a step are made
// first, then the sequence's own is put together.
class Watch {
 public:
  Watch(const MaskBudget& making, double matching)
      : making_(making), matching_(matching), begin_(thread_seconds()) {
    check(current == nullptr, "one call into xgrammar at a time");
    current = this;
  }
  ~Watch() { current = nullptr; }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  bool is_over() const {
    return thread_seconds() - begin_ > making_.seconds || (making_.stop && making_.stop());
  }
  // Until now, with and without the time in which masks were made.
  double seconds() const { return thread_seconds() - begin_; }
  double seconds_matching() const { return matched_ == 0 ? 0 : thread_seconds() - matched_; }

  static void note_making() {
    if (current != nullptr && current->is_time_to_look() && current->is_over())
      throw OutOfTime{.making = true};
  }
  static void note_matching() {
    if (current == nullptr) return;
    if (current->matched_ == 0) current->matched_ = thread_seconds();
    if (current->is_time_to_look() && current->seconds_matching() > current->matching_)
      throw OutOfTime{.making = false};
  }

 private:
  static thread_local Watch* current;
  // The clock of a thread is a system call, as dear as a few bytes; this one is not. An ambiguous
  // grammar may take milliseconds for a byte.
  using Clock = std::chrono::steady_clock;
  static constexpr auto kBetween = std::chrono::microseconds(100);
  bool is_time_to_look() {
    const Clock::time_point time = Clock::now();
    if (time < looked_ + kBetween) return false;
    looked_ = time;
    return true;
  }

  const MaskBudget& making_;
  double matching_;
  double begin_;
  double matched_ = 0;          // when matching began; 0: it has not
  Clock::time_point looked_{};  // the first note looks
};

thread_local Watch* Watch::current = nullptr;

}  // namespace

}  // namespace ingot::grammar

namespace xgrammar {

void NoteMaskMaking() {
  ingot::grammar::Watch::note_making();
}
void NoteMatching() {
  ingot::grammar::Watch::note_matching();
}

}  // namespace xgrammar

namespace ingot::grammar {

namespace {

// Runs a call into xgrammar; whatever it throws becomes our Error.
template <typename F>
auto guarded(F&& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kDoesNotFit, "[guided.masks] not enough memory");
  } catch (const std::exception& e) {
    fail(ErrorCode::kRequest, "[guided.masks] {}", e.what());
  }
}

}  // namespace

struct MaskMachine::Impl {
  xgrammar::CompiledGrammar compiled;
  int rows;
};

namespace {

// An ambiguous grammar makes each step dearer than the one before, without end, for everybody in
// the batch. Processor time of this thread is counted, in seconds; masks made for the first time
// are not: they have a budget.
class WorkLimit {
 public:
  static constexpr double kMaxCall = 0.25;

  void charge(double seconds) {
    ++calls_;
    seconds_ += seconds;
    untaken_ += seconds;
    exhausted_ |= seconds > kMaxCall || seconds_ > kFree + kMaxMean * calls_;
  }
  void exhaust() { exhausted_ = true; }
  bool exhausted() const { return exhausted_; }
  double take() { return std::exchange(untaken_, 0); }

 private:
  static constexpr double kMaxMean = 0.01;
  static constexpr double kFree = 2;
  double seconds_ = 0;
  double untaken_ = 0;
  int calls_ = 0;
  bool exhausted_ = false;
};

}  // namespace

struct MaskState::Impl {
  std::shared_ptr<const MaskMachine> machine;
  xgrammar::GrammarMatcher matcher;
  WorkLimit work{};

  std::size_t masks_made() {
    auto* compiled = machine->impl_->compiled.ImplPtr();
    const std::lock_guard lock(compiled->adaptive_token_mask_cache_mutex);
    return compiled->adaptive_token_mask_cache.size();
  }
};

struct MaskEngine::Impl {
  xgrammar::TokenizerInfo tokens;
  // Masks on demand, no cache of its own: grammars are kept by GrammarCompiler.
  mutable xgrammar::GrammarCompiler compiler;
};

bool MaskEngine::available() {
  return true;
}

MaskEngine::MaskEngine(const TokenTable& tokens) {
  impl_ = guarded([&] {
    const xgrammar::TokenizerInfo info(tokens.bytes, xgrammar::VocabType::RAW, tokens.rows,
                                       tokens.end_ids);
    return std::make_unique<Impl>(
        Impl{info, xgrammar::GrammarCompiler(info, /*max_threads=*/1, /*cache_enabled=*/false,
                                             /*max_memory_bytes=*/-1,
                                             /*enable_dynamic_compilation=*/true)});
  });
}

MaskEngine::~MaskEngine() = default;

std::shared_ptr<const MaskMachine> MaskEngine::compile(const std::string& ebnf) const {
  return guarded([&] {
    auto compiled = impl_->compiler.CompileGrammar(xgrammar::Grammar::FromEBNF(ebnf));
    const int rows = compiled.GetTokenizerInfo().GetVocabSize();
    return std::shared_ptr<const MaskMachine>(new MaskMachine(
        std::make_unique<MaskMachine::Impl>(MaskMachine::Impl{std::move(compiled), rows})));
  });
}

MaskMachine::MaskMachine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MaskMachine::~MaskMachine() = default;

std::size_t MaskMachine::bytes() const {
  return guarded([&] { return impl_->compiled.MemorySizeBytes(); });
}

void MaskMachine::warm(const MaskBudget& budget) const {
  const Watch watch(budget, 0);
  const auto make_all = [&] {
    auto* impl = impl_->compiled.ImplPtr();
    const auto& grammar = impl->grammar;
    for (int rule = 0; rule < grammar->NumRules(); ++rule) {
      const auto& fsm = grammar->per_rule_fsms[static_cast<std::size_t>(rule)];
      if (!fsm.has_value()) continue;
      std::unordered_set<int> reachable;
      fsm->GetFsm().GetReachableStates(&reachable);
      for (const int element : reachable) {
        if (!fsm->GetFsm().IsScanableState(element)) continue;
        if (watch.is_over()) return;
        impl->GetAdaptiveTokenMask(xgrammar::ParserState(rule, grammar->GetRule(rule).body_expr_id,
                                                         element,
                                                         xgrammar::ParserState::kNoPrevInputPos));
      }
    }
  };
  try {
    guarded(make_all);
  } catch (const OutOfTime&) {
  }
}

MaskState::MaskState(std::shared_ptr<const MaskMachine> machine) {
  impl_ = guarded([&] {
    xgrammar::GrammarMatcher matcher(machine->impl_->compiled);
    return std::make_unique<Impl>(Impl{std::move(machine), std::move(matcher)});
  });
}
MaskState::MaskState(const MaskState& other) {
  impl_ = guarded([&] {
    return std::make_unique<Impl>(
        Impl{other.impl_->machine, other.impl_->matcher.Fork(), other.impl_->work});
  });
}
MaskState::MaskState(MaskState&&) noexcept = default;
MaskState& MaskState::operator=(MaskState&&) noexcept = default;
MaskState::~MaskState() = default;

bool MaskState::fill(std::span<std::uint32_t> words, MaskBudget& budget) {
  const auto rows = static_cast<std::size_t>(impl_->machine->impl_->rows);
  check(words.size() == (rows + 31) / 32, "a mask has one bit for each row of the vocabulary");
  const auto fill_nothing = [&] { std::ranges::fill(words, 0u); };
  if (is_exhausted() || impl_->matcher.IsTerminated()) {
    fill_nothing();
    return true;
  }
  auto size = static_cast<std::int64_t>(words.size());
  DLTensor tensor{};
  tensor.data = words.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = xgrammar::GetBitmaskDLType();
  tensor.shape = &size;
  const std::size_t before = impl_->masks_made();
  const Watch watch(budget, WorkLimit::kMaxCall);
  std::optional<OutOfTime> ended;
  try {
    guarded([&] { impl_->matcher.FillNextTokenBitmask(&tensor); });
  } catch (const OutOfTime& e) {
    ended = e;
  }
  const double seconds = watch.seconds();
  double matching = seconds;
  if (ended.has_value() || impl_->masks_made() != before) {
    matching = watch.seconds_matching();
    budget.seconds -= seconds - matching;
  }
  if (ended.has_value() && ended->making) return false;
  impl_->work.charge(matching);
  if (ended.has_value()) {
    impl_->work.exhaust();
    fill_nothing();
    return true;
  }
  if (rows % 32 != 0) words.back() &= (1u << (rows % 32)) - 1;
  return true;
}

bool MaskState::accept(std::int32_t token) {
  if (is_exhausted()) return true;  // it is not followed any more
  const double begin = thread_seconds();
  const bool accepted = guarded([&] { return impl_->matcher.AcceptToken(token); });
  impl_->work.charge(thread_seconds() - begin);
  return accepted;
}

void MaskState::rollback(int tokens) {
  if (is_exhausted()) return;  // nothing is asked of it any more
  guarded([&] { impl_->matcher.Rollback(tokens); });
}

bool MaskState::is_exhausted() const {
  return impl_->work.exhausted();
}

double MaskState::take_seconds() {
  return impl_->work.take();
}

bool MaskState::is_complete() const {
  return !is_exhausted() && impl_->matcher.IsCompleted();
}

bool MaskState::is_ended() const {
  return !is_exhausted() && impl_->matcher.IsTerminated();
}

std::string MaskState::forced_text() {
  if (is_exhausted() || impl_->matcher.IsTerminated()) return {};
  return guarded([&] { return impl_->matcher.FindJumpForwardString(); });
}

}  // namespace ingot::grammar

#else

namespace ingot::grammar {

namespace {

[[noreturn]] void fail_without() {
  fail(ErrorCode::kRequest,
       "[guided] structured output is not in this build: configure with -DINGOT_GRAMMAR=ON");
}

}  // namespace

struct MaskMachine::Impl {};
struct MaskState::Impl {};
struct MaskEngine::Impl {};

bool MaskEngine::available() {
  return false;
}
MaskEngine::MaskEngine(const TokenTable&) {}
MaskEngine::~MaskEngine() = default;
std::shared_ptr<const MaskMachine> MaskEngine::compile(const std::string&) const {
  fail_without();
}
MaskMachine::MaskMachine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MaskMachine::~MaskMachine() = default;
std::size_t MaskMachine::bytes() const {
  return 0;
}
void MaskMachine::warm(const MaskBudget&) const {}
MaskState::MaskState(std::shared_ptr<const MaskMachine>) {
  fail_without();
}
MaskState::MaskState(const MaskState&) {
  fail_without();
}
MaskState::MaskState(MaskState&&) noexcept = default;
MaskState& MaskState::operator=(MaskState&&) noexcept = default;
MaskState::~MaskState() = default;
bool MaskState::fill(std::span<std::uint32_t>, MaskBudget&) {
  fail_without();
}
bool MaskState::accept(std::int32_t) {
  fail_without();
}
void MaskState::rollback(int) {
  fail_without();
}
bool MaskState::is_exhausted() const {
  fail_without();
}
double MaskState::take_seconds() {
  fail_without();
}
bool MaskState::is_complete() const {
  fail_without();
}
bool MaskState::is_ended() const {
  fail_without();
}
std::string MaskState::forced_text() {
  fail_without();
}

}  // namespace ingot::grammar

#endif
