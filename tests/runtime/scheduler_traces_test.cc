// Random traces of requests, answers, drafts, cancellations and faults, against a model of the KV
// cache that knows what every position must hold.
#include "base/error.h"

#include <gtest/gtest.h>

#include "tests/runtime/cache_model.h"
#include "tests/runtime/shrink.h"
#include <algorithm>
#include <random>

namespace ingot {
namespace {

struct Action {
  enum class Kind { kSubmit, kCancel, kSteps, kFault };
  Kind kind = Kind::kSteps;
  unsigned family = 0;  // submit: prompts of one family begin alike
  unsigned length = 1;  // of its prompt; kSteps: how many; kCancel: which request
  unsigned answer = 1;
  unsigned width = 1;
  unsigned traits = 0;  // bits: other salt, shares nothing, priority (2), retention (2), prompt
                        // rows, retention for a time, lockstep
};

std::string to_string(const Action& a) {
  const char* names[] = {"submit", "cancel", "steps", "fault"};
  return fmt::format("{}({}, {}, {}, {}, {:#x})", names[static_cast<int>(a.kind)], a.family,
                     a.length, a.answer, a.width, a.traits);
}

struct Trace {
  SchedulerLimits limits;
  std::vector<Action> actions;
};

std::string to_string(const Trace& t) {
  const SchedulerLimits& l = t.limits;
  std::string text = fmt::format(
      "max_tokens {} max_sequences {} max_pages {} page_tokens {} kv_pages {} host_pages {} window "
      "{} sink_tokens {} policy {}\n",
      l.max_tokens, l.max_sequences, l.max_pages, l.page_tokens, l.kv_pages, l.host_pages,
      l.reach.window, l.reach.sink_tokens, to_string(l.policy));
  for (const Action& a : t.actions) text += "  " + to_string(a) + "\n";
  return text;
}

Trace random_trace(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  Trace t;
  SchedulerLimits& l = t.limits;
  l.max_sequences = 1 + below(5);
  l.max_tokens = l.max_sequences + below(30);
  l.page_tokens = 1 + below(8);
  l.kv_pages = 8 + below(40);
  l.max_pages = 4 + below(12);
  l.host_pages = below(3) == 0 ? below(20) : 0;
  l.reach.window = below(3) == 0 ? 1 + below(20) : 0;
  l.reach.sink_tokens = l.reach.window > 0 && below(2) == 0 ? below(12) : 0;
  l.policy = static_cast<SchedulerPolicy>(below(3));
  const unsigned actions = 4 + below(40);
  for (unsigned i = 0; i < actions; ++i) {
    const unsigned kind = below(20);
    if (kind < 9)
      t.actions.push_back({.kind = Action::Kind::kSubmit,
                           .family = below(3),
                           .length = 1 + below(40),
                           .answer = 1 + below(16),
                           .width = below(4) == 0 ? 1 + below(4) : 1,
                           .traits = below(2) == 0 ? 0 : below(512)});
    else if (kind < 11)
      t.actions.push_back({.kind = Action::Kind::kCancel, .length = 1 + below(20)});
    else if (kind < 12)
      t.actions.push_back({.kind = Action::Kind::kFault});
    else
      t.actions.push_back({.length = 1 + below(8)});
  }
  return t;
}

// Plays a trace as the engine loop would. What is drawn depends on the text before it and the seed.
class Player {
 public:
  explicit Player(const Trace& trace)
      : limits_(trace.limits), scheduler_(trace.limits), model_(trace.limits) {}

  std::string play(const std::vector<Action>& actions) {
    for (const Action& a : actions) {
      if (a.kind == Action::Kind::kSubmit) submit(a);
      if (a.kind == Action::Kind::kCancel) scheduler_.remove(a.length);
      const unsigned steps = a.kind == Action::Kind::kSteps   ? a.length
                             : a.kind == Action::Kind::kFault ? 1
                                                              : 0;
      for (unsigned i = 0; i < steps; ++i)
        if (std::string wrong = step(a.kind == Action::Kind::kFault); !wrong.empty()) return wrong;
      scheduler_.check_integrity();
    }
    for (int rounds = 0; scheduler_.has_work(); ++rounds) {
      if (rounds > 4000) return "requests that never end";
      if (std::string wrong = step(false); !wrong.empty()) return wrong;
    }
    if (scheduler_.cache().available() != limits_.kv_pages) return "pages are lost";
    return {};
  }

 private:
  void submit(const Action& a) {
    auto group = std::make_unique<SequenceGroup>();
    group->id = ++last_id_;
    group->prompt_tokens = a.length;
    group->limit = a.length + a.answer;
    group->width = static_cast<std::int32_t>(a.width);
    group->share = (a.traits & 2) == 0;
    group->order = static_cast<std::int64_t>(last_id_) - (a.traits >> 2 & 3) * 5;
    group->prompt_rows = (a.traits & 64) != 0;
    group->lockstep = (a.traits & 256) != 0;
    if (!scheduler_.fits(group->prompt_tokens, group->limit, group->width)) return;
    auto s = std::make_unique<Sequence>();
    for (unsigned i = 0; i < a.length; ++i)
      s->tokens.push_back(static_cast<std::int32_t>(i < a.length / 4 * 3 ? a.family * 7 + i % 5
                                                                         : last_id_ % 4 + i % 3));
    s->chain.retention = {.priority = static_cast<int>(a.traits >> 4 & 3) * 30,
                          .seconds = (a.traits & 128) != 0 ? 9.0 : 0};
    group->members.push_back(std::move(s));
    scheduler_.add(std::move(group), (a.traits & 1) != 0 ? "other" : "");
  }

  static std::int32_t draw(const Sequence& s, std::size_t drafts) {
    std::uint64_t z = s.seed;
    for (const std::int32_t token : s.tokens)
      z = (z ^ static_cast<unsigned>(token)) * 0x9e3779b1ull;
    for (std::size_t i = 0; i < drafts; ++i)
      z = (z ^ static_cast<unsigned>(s.drafts[i])) * 0x9e3779b1ull;
    return static_cast<std::int32_t>((z >> 16) % 4);
  }

  std::string step(bool fails) {
    ScheduledStep& step = scheduler_.next(now_++);
    if (step.empty()) return scheduler_.has_work() ? "a deadlock" : "";
    for (const ScheduledStep::Entry& e : step.entries)
      if (scheduler_.cache().held(e.sequence->chain) >
          limits_.reach.most_held(limits_.max_pages, limits_.page_tokens, limits_.max_tokens))
        return "a sequence holds more than its window and sinks";
    if (std::string wrong = model_.run(step, fails); !wrong.empty()) return wrong;
    if (fails) {
      for (const ScheduledStep::Entry& e : step.entries) scheduler_.remove(e.group->id);
      scheduler_.abandon();
    } else {
      scheduler_.commit(step);
      for (std::size_t i = 0; i < step.entries.size(); ++i)
        if (std::string wrong = accept(step.entries, i); !wrong.empty()) return wrong;
    }
    scheduler_.check_integrity();
    return {};
  }

  std::string accept(std::span<const ScheduledStep::Entry> entries, std::size_t i) {
    const ScheduledStep::Entry& e = entries[i];
    SequenceGroup& group = *e.group;
    if (group.phase == Phase::kGone) return {};
    if (limits_.policy == SchedulerPolicy::kGuaranteedNoEvict && group.preemptions > 0)
      return "a policy that pauses nobody paused somebody";
    if (group.lockstep) {
      // Entries are in the order of rows, which beams swap; none is left once they have followed.
      const auto later = entries.subspan(i + 1);
      const bool last =
          std::ranges::find(later, &group, &ScheduledStep::Entry::group) == later.end();
      return last ? follow(group) : std::string();
    }
    Sequence& s = *e.sequence;
    if (s.done) return {};
    if (e.begin + e.count < s.tokens.size()) return {};  // prompt is left
    if (group.width > 1 && group.members.size() == 1) {
      std::vector<std::uint64_t> seeds;
      for (std::int32_t i = 1; i < group.width; ++i) seeds.push_back(static_cast<unsigned>(i));
      scheduler_.fork(group, seeds);
      for (std::size_t i = 0; i < group.members.size(); ++i) push(group, *group.members[i]);
      return {};
    }
    std::size_t good = 0;
    while (good < e.drafts && s.drafts[good] == draw(s, good)) ++good;
    const std::vector<std::int32_t> drafts = std::exchange(s.drafts, {});
    for (std::size_t i = 0; i < good; ++i) {
      s.tokens.push_back(drafts[i]);
      if (end_if_full(group, s)) return {};
    }
    if (!push(group, s) && !drafts.empty()) scheduler_.settle(s, s.tokens.size() - 1);
    return {};
  }

  // Beams: all go a step further once none has tokens left to compute.
  std::string follow(SequenceGroup& group) {
    const auto ready = std::ranges::count_if(group.members, [](auto& s) { return s->left() == 0; });
    if (ready == 0) return {};
    if (ready != std::ssize(group.members)) return "beams are not in step";
    std::vector<std::int32_t> parents;
    for (const auto& member : group.members) {
      const auto z = static_cast<std::int32_t>(draw(*member, 0));
      parents.push_back(z % static_cast<std::int32_t>(group.members.size()));
    }
    while (std::ssize(parents) < group.width) parents.push_back(parents[0]);
    scheduler_.follow(group, parents);
    for (auto& member : group.members) member->tokens.push_back(member->index + draw(*member, 0));
    if (group.members[0]->tokens.size() >= group.limit) scheduler_.remove(group.id);
    return {};
  }

  // True when the answer ended.
  bool push(SequenceGroup& group, Sequence& s) {
    s.tokens.push_back(draw(s, 0));
    if (end_if_full(group, s)) return true;
    if (group.id % 3 == 0)  // guesses, some of them right
      for (std::size_t i = 0; i < 3 && s.tokens.size() + i + 1 < group.limit; ++i)
        s.drafts.push_back((s.tokens.size() + i) % 3 == 0 ? 1 : draw(s, i));
    return false;
  }

  bool end_if_full(SequenceGroup& group, Sequence& s) {
    if (s.tokens.size() < group.limit - static_cast<std::size_t>(s.index) % 2 &&
        s.tokens.size() < group.limit)
      return false;
    const auto live = std::ranges::count_if(group.members, [](auto& m) { return !m->done; });
    if (live > 1)
      scheduler_.end(group, s);
    else
      scheduler_.remove(group.id);
    return true;
  }

  SchedulerLimits limits_;
  Scheduler scheduler_;
  test::CacheModel model_;
  RequestId last_id_ = 0;
  double now_ = 0;
};

std::string play(const Trace& trace) {
  try {
    return Player(trace).play(trace.actions);
  } catch (const Error& e) {
    return e.message();
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kTraces = 1000;  // they run ten to fifty times slower
#else
constexpr unsigned kTraces = 10000;
#endif

TEST(SchedulerTraces, EverySequenceReadsItsOwnPast) {
  for (unsigned seed = 0; seed < kTraces; ++seed) {
    Trace trace = random_trace(seed);
    const std::string wrong = play(trace);
    if (wrong.empty()) continue;
    trace.actions = test::shrink<Action>(trace.actions, [&](const std::vector<Action>& fewer) {
      return !play({trace.limits, fewer}).empty();
    });
    FAIL() << "seed " << seed << ": " << wrong << "; shrunk: " << play(trace) << "\n"
           << to_string(trace);
  }
}

}  // namespace
}  // namespace ingot
