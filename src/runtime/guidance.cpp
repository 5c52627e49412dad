// What grammars ask of the engine loop: they are made ready beside it, say what may come while the
// model runs, and follow every token.
#include "base/check.h"
#include "base/error.h"
#include "runtime/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace ingot {

namespace {

GrammarKind kind_of(GuidedKind kind) {
  switch (kind) {
    case GuidedKind::kNone:
    case GuidedKind::kJsonObject:
      return GrammarKind::kJsonObject;
    case GuidedKind::kJsonSchema:
      return GrammarKind::kJsonSchema;
    case GuidedKind::kRegex:
      return GrammarKind::kRegex;
    case GuidedKind::kGrammar:
      return GrammarKind::kEbnf;
    case GuidedKind::kChoice:
      return GrammarKind::kChoice;
  }
  return GrammarKind::kJsonObject;
}

// Of the time, how much grammars may take while others run, and how much of it they may save up.
constexpr double kShare = 0.25;
constexpr double kMostSaved = 0.05;
// Seconds in a step from which a grammar is dear: a hundred times what common ones take.
constexpr double kDear = 0.001;

}  // namespace

// A loop with nothing else to do sleeps until a grammar is ready.
struct EngineLoop::Woken {
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
};

// "" or why the request is refused. The request waits where its grammar is not ready yet.
std::string EngineLoop::want_grammar(const Request& request, RequestRecord& record,
                                     SequenceGroup& group) {
  const GuidedDecoding& g = request.guided;
  if (g.kind == GuidedKind::kNone) return {};
  if (!tokenizer_ || !grammar::MaskEngine::available())
    return fmt::format(
        "[request.guided] {}; wanted none",
        tokenizer_ ? "this Ingot was built without grammars" : "the engine has no tokenizer");
  if (record.sampling.min_tokens > 0)
    return fmt::format("[request] min_tokens {}: wanted 0 where a grammar decides when to end",
                       record.sampling.min_tokens);
  if (!grammars_) {
    woken_ = std::make_shared<Woken>();
    grammars_ = std::make_unique<GrammarCompiler>(
        *tokenizer_,
        GrammarVocabularyOptions{.rows = static_cast<int>(executor_.vocab()),
                                 .end_ids = info_.end_ids},
        options_.grammars);
  }
  record.pending_grammar = grammars_->submit({.kind = kind_of(g.kind),
                                              .text = g.text,
                                              .choices = g.choices,
                                              .max_whitespace = g.max_whitespace},
                                             waker());
  if (record.pending_grammar.ready()) return take_grammar(record);
  group.ready = false;
  unready_.push_back(record.id);
  return {};
}

std::string EngineLoop::take_grammar(RequestRecord& record) {
  Result<CompiledGrammarPtr> result = record.pending_grammar.result();
  record.pending_grammar = {};
  if (!result.ok()) return result.error().message();
  record.grammar = std::move(result).value_or_throw();
  record.answers[0]->matcher.emplace(record.grammar);
  if (record.beams) record.beams->matchers.emplace_back(record.grammar);
  return {};
}

std::function<void()> EngineLoop::waker() const {
  return [woken = woken_] {
    const std::lock_guard lock(woken->mutex);
    woken->ready = true;
    woken->changed.notify_all();
  };
}

void EngineLoop::start_grammars() {
  std::erase_if(unready_, [&](RequestId id) {
    const auto known = records_.find(id);
    if (known == records_.end()) return true;  // it has ended meanwhile
    RequestRecord& record = *known->second;
    const bool is_held = record.grammar != nullptr;
    if (!(is_held ? record.pending_masks.ready() : record.pending_grammar.ready())) return false;
    if (const std::string wrong = is_held ? take_masks(record) : take_grammar(record);
        !wrong.empty()) {
      fail_request(record, {ErrorCode::kRequest, wrong});
    } else {
      scheduler_.set_ready(id);
    }
    return true;
  });
}

void EngineLoop::wait_for_grammars() {
  constexpr auto kShort = std::chrono::milliseconds(5);  // others may have been submitted
  std::unique_lock lock(woken_->mutex);
  woken_->changed.wait_for(lock, kShort, [&] { return std::exchange(woken_->ready, false); });
}

// Charges what following a grammar took.
void EngineLoop::follow(RequestRecord& record, GrammarMatcher& matcher) {
  const double seconds = matcher.take_seconds();
  grammar_seconds_ -= seconds;
  record.follow_seconds += seconds;
  if (record.is_dear || record.follow_seconds < kDear) return;
  record.is_dear = true;
  dear_.push_back(record.id);
}

// Grammars that take long to follow get a part of the time, however many they are, and take turns:
// whoever else runs has the rest. They have all of it where nobody else runs.
void EngineLoop::ration(double time) {
  const double passed = time - std::exchange(rationed_at_, time);
  grammar_seconds_ = std::min(kMostSaved, grammar_seconds_ + kShare * passed);
  std::erase_if(dear_, [&](RequestId id) { return !records_.contains(id); });
  if (dear_.empty()) return;
  std::size_t running = 0;
  for (const RequestId id : dear_) {
    const SequenceGroup* group = scheduler_.find(id);
    running += group && group->phase == Phase::kRunning;
  }
  const bool alone = running == scheduler_.running();
  double left = grammar_seconds_;
  std::stable_partition(dear_.begin(), dear_.end(), [&](RequestId id) {
    SequenceGroup* group = scheduler_.find(id);
    if (!group) return true;
    group->sits_out = !alone && left <= 0;
    if (group->sits_out) return true;
    left -= std::exchange(group->record->follow_seconds, 0);
    return false;
  });
}

// The masks of every row that will be drawn from, one after another. Nobody waits long for a mask
// that nobody wanted before: the request that needs it sits out until it is made.
void EngineLoop::fill_masks(const ScheduledStep& step) {
  grammar::MaskBudget budget{.seconds =
                                 std::clamp(grammar_seconds_, 0.0, options_.mask_seconds_of_step)};
  const double most = budget.seconds;
  for (const ScheduledStep::Entry& entry : step.entries) {
    RequestRecord& record = *entry.group->record;
    const Sequence& s = *entry.sequence;
    if (!record.grammar || record.unmasked || entry.begin + entry.count < s.tokens.size()) continue;
    const std::size_t words = GrammarMatcher::mask_words(*record.grammar);
    const auto index = static_cast<std::size_t>(s.index);
    const auto fill = [&](GrammarMatcher& matcher, std::vector<std::uint32_t>& masks,
                          std::size_t at) {
      if (!matcher.fill_mask(std::span(masks).subspan(at * words, words), budget).has_value())
        record.unmasked = matcher;
      follow(record, matcher);
    };
    if (record.beams) {
      BeamRecord& beams = *record.beams;
      beams.masks.resize(words * entry.group->members.size());
      fill(beams.matchers[index], beams.masks, index);
      continue;
    }
    AnswerRecord& answer = *record.answers[index];
    answer.masks.resize(words * (1 + entry.drafts));
    fill(*answer.matcher, answer.masks, 0);
    int accepted = 0;
    for (std::size_t d = 0; d < entry.drafts && !record.unmasked; ++d) {
      if (!answer.matcher->accept(s.drafts[d])) break;  // it will not be drawn
      ++accepted;
      fill(*answer.matcher, answer.masks, d + 1);
    }
    answer.matcher->rollback(accepted);
  }
  grammar_seconds_ -= most - budget.seconds;
}

void EngineLoop::hold_for_masks(SequenceGroup& group) {
  RequestRecord& record = *group.record;
  GrammarMatcher unmasked = *std::exchange(record.unmasked, std::nullopt);
  if (group.phase != Phase::kRunning) return;  // paused for another reason: it asks again
  record.pending_masks = grammars_->make_masks(
      std::move(unmasked), options_.mask_seconds_of_request - record.mask_seconds, waker());
  scheduler_.hold(group);
  unready_.push_back(record.id);
}

// "" or why the request ends.
std::string EngineLoop::take_masks(RequestRecord& record) {
  const PendingMasks::Outcome outcome = std::exchange(record.pending_masks, {}).result();
  record.mask_seconds += outcome.seconds;
  if (outcome.made) return {};
  return fmt::format(
      "[guided.work] what may come next was not found within {:g} s of processor time: the "
      "grammar can match a text in too many ways; the answer ends here",
      options_.mask_seconds_of_request);
}

}  // namespace ingot
