#include "runtime/scheduler.h"

#include "base/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace ingot {

namespace {

// Of the mean length of answers that the newest one makes up.
constexpr double kNewest = 1.0 / 16;
// An answer may well be this much longer than usual.
constexpr double kMargin = 1.25;

KvCache::After after(const SequenceGroup& group) {
  return group.share ? KvCache::After::kKeep : KvCache::After::kForget;
}

std::int64_t live(const SequenceGroup& group) {
  return std::ranges::count_if(group.members, [](const auto& s) { return !s->done; });
}

}  // namespace

const char* to_string(SchedulerPolicy policy) {
  switch (policy) {
    case SchedulerPolicy::kMaxUtilization:
      return "max_utilization";
    case SchedulerPolicy::kGuaranteedNoEvict:
      return "guaranteed_no_evict";
    case SchedulerPolicy::kExpectedLength:
      return "expected_length";
  }
  return "";
}

const char* to_string(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNone:
      return "runs";
    case WaitReason::kQueue:
      return "others come first";
    case WaitReason::kPages:
      return "the KV cache is full";
    case WaitReason::kRows:
      return "the batch is full";
    case WaitReason::kBudget:
      return "the step is full";
    case WaitReason::kNotReady:
      return "it is being prepared";
  }
  return "";
}

Scheduler::Scheduler(const SchedulerLimits& limits)
    : limits_(limits),
      cache_({.pages = limits.kv_pages,
              .host_pages = limits.host_pages,
              .page_tokens = limits.page_tokens,
              .reach = limits.reach}),
      table_(limits.max_sequences, limits.max_pages),
      planned_(static_cast<std::size_t>(limits.max_sequences)) {
  check(limits.max_tokens >= limits.max_sequences && limits.max_sequences >= 1 &&
            limits.page_tokens >= 1 && limits.max_pages >= 1,
        "every running sequence decodes in one step");
  const auto tokens = static_cast<std::size_t>(limits.max_tokens);
  const auto sequences = static_cast<std::size_t>(limits.max_sequences);
  Batch& b = step_.batch;
  for (auto* array : {&b.ids, &b.positions, &b.slots, &b.rope_row, &b.rows}) array->reserve(tokens);
  b.query_start.reserve(sequences + 1);
  b.context_len.reserve(sequences);
  b.table_changes.reserve(BlockTable::kChangesOfRow * sequences);
  b.copies.reserve(cache_.most_copies());
  step_.entries.reserve(sequences);
  step_.rows.reserve(tokens);
  gone_.reserve(sequences);
}

SequenceGroup& Scheduler::add(std::unique_ptr<SequenceGroup> group, std::string_view salt) {
  check(group->members.size() == 1 && !group->members[0]->tokens.empty() &&
            group->limit >= group->prompt_tokens,
        "a request has a prompt and room");
  check(fits(group->prompt_tokens, group->limit, group->width), "a request larger than the cache");
  SequenceGroup& added = *group;
  // K is rotated by its row of the rope table before it is cached, so rows have nothing in common.
  const std::string name = fmt::format("{}:{}", added.rope_row, salt);
  reserve(added, *added.members[0]);
  added.members[0]->chain.root = cache_.open_root(name, added.share);
  if (!added.share) added.members[0]->chain.retention = {.priority = 0};
  by_id_.emplace(added.id, &added);
  waiting_.emplace(Order{added.order, added.id}, std::move(group));
  return added;
}

// Nothing is allocated while it grows to its limit.
void Scheduler::reserve(const SequenceGroup& group, Sequence& s) const {
  s.tokens.reserve(group.limit);
  s.chain.pages.reserve(static_cast<std::size_t>(cache_.pages_for(group.limit)));
}

bool Scheduler::fits(std::size_t prompt_tokens, std::size_t limit, std::int32_t width) const {
  return cache_.pages_for(limit) <= limits_.max_pages && width <= limits_.max_sequences &&
         most_pages(prompt_tokens, limit, width) <= cache_.capacity();
}

// Most pages that a request holds at once when its answers come to so many tokens, prompt included.
std::int64_t Scheduler::most_pages(std::size_t prompt_tokens, std::size_t tokens,
                                   std::int32_t width) const {
  const std::int64_t pages = cache_.pages_for(tokens);
  const std::int64_t each = most_held(pages);
  const std::int64_t shared = static_cast<std::int64_t>(prompt_tokens) / limits_.page_tokens;
  const std::int64_t together = shared + (pages - shared) * width;
  const KvReach& reach = limits_.reach;
  const std::int64_t passed =
      (static_cast<std::int64_t>(tokens) + 1 - reach.window) / limits_.page_tokens;
  if (width == 1) return each;
  if (reach.window == 0 || passed <= reach.sink_pages(limits_.page_tokens)) return together;
  // After a pause an answer may find the end of the prompt gone that another has passed. It reads
  // the prompt again, one answer at a time (attach()), beside pages that others still have.
  return std::min(each * width, together + std::min(shared, each));
}

// Of the members that are there and those to come.
std::int64_t Scheduler::pages_to_promise(const SequenceGroup& group) const {
  std::size_t longest = 0;
  for (const auto& s : group.members)
    if (!s->done) longest = std::max(longest, s->tokens.size());
  std::size_t tokens = group.limit;
  if (limits_.policy == SchedulerPolicy::kMaxUtilization)
    tokens = std::min(group.limit, longest + 1);
  else if (limits_.policy == SchedulerPolicy::kExpectedLength)
    tokens = std::min(group.limit,
                      std::max(longest + 1, group.prompt_tokens +
                                                static_cast<std::size_t>(kMargin * usual_answer_)));
  return most_pages(group.prompt_tokens, tokens, group.width);
}

// Pages that a request has, each once, however many of its answers use it.
std::int64_t Scheduler::held(const SequenceGroup& group) const {
  std::int64_t pages = 0;
  for (const auto& s : group.members) pages += cache_.held(s->chain);
  // A page that two share is as far from the beginning in both. The first has none before it, so
  // for one answer, of any length, there is nothing to look through.
  for (auto s = std::next(group.members.begin()); s != group.members.end(); ++s)
    for (std::size_t p = 0; p < (*s)->chain.pages.size(); ++p)
      pages -= (*s)->chain.pages[p] != kNoPage &&
               std::any_of(group.members.begin(), s, [&](const auto& before) {
                 const auto& others = before->chain.pages;
                 return p < others.size() && others[p] == (*s)->chain.pages[p];
               });
  return pages;
}

// Pages that are promised and not yet taken.
std::int64_t Scheduler::outstanding() const {
  std::int64_t pages = 0;
  for (const auto& [order, group] : running_) {
    const std::int64_t common =
        static_cast<std::int64_t>(group->prompt_tokens) / limits_.page_tokens;
    std::int64_t held = 0;
    if (limits_.reach.window != 0) {
      held = this->held(*group);  // of the prompt, too, only what a window still sees
    } else if (group->lockstep && group->members.size() > 1) {
      held = common;  // beams share more than the prompt: nobody counts on how much
    } else
      for (const auto& s : group->members) {
        const std::int64_t own = cache_.held(s->chain);
        held += s.get() == group->members[0].get() ? own : std::max<std::int64_t>(0, own - common);
      }
    pages += std::max<std::int64_t>(0, group->promised - held);
  }
  return pages;
}

WaitReason Scheduler::reason_to_wait(SequenceGroup& group) {
  const std::int64_t rows = group.width - (std::ssize(group.members) - live(group));
  if (rows_promised_ + rows > limits_.max_sequences) return WaitReason::kRows;
  const std::int64_t room = cache_.available() - outstanding();
  // Looking for a long prompt in the cache every step would cost more than the step.
  if (head_ == group.id && room < head_pages_ && !running_.empty()) return WaitReason::kPages;
  const Sequence& first = **std::ranges::find_if(group.members, [](auto& s) { return !s->done; });
  const auto most = (first.tokens.size() - 1) / static_cast<std::size_t>(limits_.page_tokens);
  std::int64_t borrowed = 0;  // pages that others hold and this one will share cost nothing
  if (!group.prompt_rows || first.tokens.size() > group.prompt_tokens)
    borrowed = cache_.borrowed(first.chain.root, first.tokens, most);
  group.promised = pages_to_promise(group);
  head_ = group.id;
  head_pages_ = std::max<std::int64_t>(1, group.promised - borrowed);
  return room >= head_pages_ ? WaitReason::kNone : WaitReason::kPages;
}

bool Scheduler::try_start(SequenceGroup& group, std::int64_t budget) {
  if (budget < live(group)) {
    head_reason_ = WaitReason::kBudget;
    return false;
  }
  head_reason_ = reason_to_wait(group);
  if (head_reason_ != WaitReason::kNone) return false;
  rows_promised_ += group.width - (std::ssize(group.members) - live(group));
  group.phase = Phase::kRunning;
  for (const auto& s : group.members)
    if (!s->done) s->row = table_.take_row();
  return true;
}

// A sequence starts where the cache ends. False: another answer of its request still reads the
// prompt, which one is to do for all.
bool Scheduler::attach(SequenceGroup& group, Sequence& s) {
  if (s.attached) return true;
  const auto size = static_cast<std::size_t>(limits_.page_tokens);
  for (const auto& other : group.members)
    if (other->attached && other->cached < group.prompt_tokens / size * size) return false;
  s.attached = true;
  const bool all = group.prompt_rows && s.tokens.size() <= group.prompt_tokens;
  s.cached = all ? 0 : cache_.attach(s.chain, s.tokens, (s.tokens.size() - 1) / size);
  write_entry(s, 0);
  if (!group.started) group.reused = s.cached;
  group.started = true;
  return true;
}

void Scheduler::admit(std::int64_t budget) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    SequenceGroup& group = *at->second;
    if (!group.ready) {
      ++at;
      continue;
    }
    if (!try_start(group, budget)) return;
    running_.insert(waiting_.extract(at++));
    if (!place(group, budget)) {
      preempt(running_.find({group.order, group.id}));
      head_reason_ = WaitReason::kPages;
      return;
    }
  }
}

void Scheduler::write_entry(Sequence& s, std::size_t first_page) {
  table_.write(s.row, first_page, std::span(s.chain.pages).subspan(first_page));
}

// Pages for so many tokens; the youngest are paused for them. False when it is the youngest itself.
bool Scheduler::grow(SequenceGroup& group, Sequence& s, std::size_t tokens) {
  const std::size_t before = s.chain.pages.size();
  while (!cache_.try_grow(s.chain, tokens)) {
    const auto youngest = std::prev(running_.end());
    if (youngest->second.get() == &group) return false;
    preempt(youngest);
  }
  if (s.chain.pages.size() > before) write_entry(s, before);
  return true;
}

// Plans what each answer of a request does in this step. False when pages are missing and nobody
// younger has any.
bool Scheduler::place(SequenceGroup& group, std::int64_t& budget) {
  std::int64_t others = 0;  // that decode after this one
  for (const auto& s : group.members) others += !s->done && attach(group, *s) && s->left() == 1;
  // In lockstep the last token waits until all have only that one left.
  const bool waits = group.lockstep && group.members.size() > 1 && others < live(group);
  for (const auto& s : group.members) {
    if (s->done || !s->attached) continue;
    const bool decodes = s->left() == 1;
    others = std::max<std::int64_t>(0, others - decodes);
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(0, budget - others));
    const std::size_t left = waits ? s->left() - 1 : decodes ? 1 + s->drafts.size() : s->left();
    const std::size_t count = std::min(left, most);
    if (count == 0) continue;
    if (!grow(group, *s, s->cached + count)) return false;
    budget -= static_cast<std::int64_t>(count);
    planned_[static_cast<std::size_t>(s->row)] = {.group = &group,
                                                  .sequence = s.get(),
                                                  .begin = s->cached,
                                                  .count = count,
                                                  .drafts = decodes ? count - 1 : 0};
  }
  return true;
}

void Scheduler::stop_running(SequenceGroup& group, KvCache::After how) {
  group.most_pages = std::max(group.most_pages, held(group));
  for (const auto& s : group.members) {
    if (s->row < 0) continue;
    planned_[static_cast<std::size_t>(s->row)] = {};
    table_.free_row(std::exchange(s->row, -1));
    cache_.release(s->chain, how);
    s->cached = 0;
    s->attached = false;
    s->drafts.clear();
  }
  rows_promised_ -= group.width - (std::ssize(group.members) - live(group));
  group.promised = 0;
}

void Scheduler::preempt(Queue::iterator at) {
  ++at->second->preemptions;
  ++preemptions_;
  ++step_.preempted;
  pause(at);
}

void Scheduler::pause(Queue::iterator at) {
  SequenceGroup& group = *at->second;
  stop_running(group, KvCache::After::kKeep);
  group.phase = Phase::kWaiting;
  waiting_.insert(running_.extract(at));
}

void Scheduler::hold(SequenceGroup& group) {
  check(group.phase == Phase::kRunning && group.ready, "who runs can be held");
  group.ready = false;
  pause(running_.find({group.order, group.id}));
}

ScheduledStep& Scheduler::next(double now) {
  gone_.clear();
  cache_.set_time(now);
  step_.entries.clear();
  step_.rows.clear();
  step_.preempted = 0;
  std::ranges::fill(planned_, ScheduledStep::Entry{});
  std::int64_t decodes = 0;
  for (const auto& [order, group] : running_) {
    if (group->sits_out) continue;
    group->decoding = std::ranges::count_if(
        group->members, [](const auto& s) { return !s->done && s->left() == 1; });
    decodes += group->decoding;
  }
  // Decodes first, in their order; what they leave goes to guesses and prompts.
  std::int64_t rest = limits_.max_tokens - decodes;
  for (auto at = running_.begin(); at != running_.end();) {
    SequenceGroup& group = *at->second;
    if (group.sits_out) {
      ++at;
      continue;
    }
    std::int64_t budget = rest + group.decoding;
    if (!place(group, budget)) {
      preempt(at);  // the youngest of all
      break;
    }
    rest = std::max<std::int64_t>(0, budget);
    ++at;
  }
  head_reason_ = WaitReason::kBudget;
  if (rest > 0) admit(rest);
  build();
  return step_;
}

void Scheduler::build() {
  Batch& b = step_.batch;
  b.ids.clear();
  b.positions.clear();
  b.slots.clear();
  b.rope_row.clear();
  b.query_start.assign(1, 0);
  b.context_len.clear();
  b.rows.clear();
  b.copies.clear();
  b.table_changes.clear();
  step_.decode_tokens = 0;
  for (std::int64_t row = 0; row < table_.rows(); ++row)
    append(planned_[static_cast<std::size_t>(row)]);
  b.pages = table_.pages();
  b.block_table = table_.entries();
  b.whole_table = false;
  if (step_.empty()) return;  // what moves and changes is told with the step that needs it
  cache_.take_copies(b.copies);
  table_.take_changes(b.table_changes);
}

void Scheduler::append(const ScheduledStep::Entry& entry) {
  Batch& b = step_.batch;
  if (entry.sequence) {
    const Sequence& s = *entry.sequence;
    const std::size_t real = entry.count - entry.drafts;
    const bool prompt_rows =
        entry.group->prompt_rows && s.tokens.size() <= entry.group->prompt_tokens;
    const auto size = static_cast<std::uint32_t>(limits_.page_tokens);
    std::size_t page = static_cast<std::uint32_t>(entry.begin) / size;
    std::int64_t offset = static_cast<std::uint32_t>(entry.begin) % size;
    for (std::size_t i = entry.begin; i < entry.begin + entry.count; ++i, ++offset) {
      if (offset == limits_.page_tokens) {
        ++page;
        offset = 0;
      }
      if (prompt_rows || i + 1 >= s.tokens.size()) {
        b.rows.push_back(static_cast<std::int32_t>(b.ids.size()));
        step_.rows.push_back({entry.group, entry.sequence, i});
      }
      b.ids.push_back(i < s.tokens.size() ? s.tokens[i] : s.drafts[i - s.tokens.size()]);
      b.positions.push_back(static_cast<std::int32_t>(i));
      b.slots.push_back(
          static_cast<std::int32_t>(s.chain.pages[page] * limits_.page_tokens + offset));
      b.rope_row.push_back(entry.group->rope_row);
    }
    if (s.left() == 1) step_.decode_tokens += static_cast<std::int64_t>(real);
    step_.entries.push_back(entry);
  }
  b.query_start.push_back(static_cast<std::int32_t>(b.ids.size()));
  b.context_len.push_back(entry.sequence ? static_cast<std::int32_t>(entry.begin + entry.count)
                                         : 0);
}

void Scheduler::commit(const ScheduledStep& step) {
  for (const ScheduledStep::Entry& entry : step.entries) {
    if (entry.group->phase != Phase::kRunning || entry.sequence->done) continue;
    settle(*entry.sequence, entry.begin + entry.count - entry.drafts);
  }
}

void Scheduler::settle(Sequence& s, std::size_t cached) {
  s.cached = cached;
  const std::size_t changed = cache_.publish(s.chain, s.tokens, cached);
  if (changed < s.chain.pages.size()) write_entry(s, changed);
  if (s.drafts.empty() && !s.chain.pages.empty() && cache_.hold(s.chain.pages.size() - 1, cached))
    cache_.shrink(s.chain, cached);
  cache_.pass(s.chain, cached);
}

void Scheduler::rewind(Sequence& s, std::size_t tokens) {
  s.tokens.resize(tokens);
  s.drafts.clear();
  if (s.cached > tokens) s.cached = cache_.rewind(s.chain, tokens);
}

void Scheduler::abandon() {
  cache_.forget_kept();
  table_.tell_again();
}

void Scheduler::fork(SequenceGroup& group, std::span<const std::uint64_t> seeds) {
  Sequence& first = *group.members.at(0);
  check(group.phase == Phase::kRunning && group.members.size() == 1 &&
            first.cached == first.tokens.size() && std::ssize(seeds) == group.width - 1,
        "answers part after the prompt");
  bool room = true;
  for (const std::uint64_t seed : seeds) {
    auto s = std::make_unique<Sequence>();
    s->index = static_cast<std::int32_t>(group.members.size());
    s->seed = seed;
    s->chain.root = first.chain.root;
    s->chain.retention = first.chain.retention;
    reserve(group, *s);
    room = room && copy_member(first, *s);
    if (!room) s->tokens = first.tokens;
    group.members.push_back(std::move(s));
  }
  // They come back together, and find the prompt's pages.
  if (!room) preempt(running_.find({group.order, group.id}));
}

// `to` is what `from` is, in a row of its own. False when there is no page for it.
bool Scheduler::copy_member(const Sequence& from, Sequence& to) {
  to.tokens = from.tokens;
  if (!cache_.try_fork(from.chain, from.cached, to.chain)) return false;
  to.cached = from.cached;
  to.attached = true;
  to.row = table_.take_row();
  write_entry(to, 0);
  return true;
}

void Scheduler::follow(SequenceGroup& group, std::span<const std::int32_t> parents) {
  check(group.phase == Phase::kRunning && group.lockstep && !parents.empty() &&
            std::ssize(parents) <= group.width,
        "beams follow beams");
  auto before = std::exchange(group.members, {});
  std::vector<char> has_child(before.size(), 0);
  for (const std::int32_t p : parents) has_child.at(static_cast<std::size_t>(p)) = 1;
  const CacheRoot root = before[0]->chain.root;
  const Retention retention = before[0]->chain.retention;
  for (std::size_t i = 0; i < before.size(); ++i)  // first: their pages may be wanted
    if (!has_child[i]) {
      table_.free_row(std::exchange(before[i]->row, -1));
      cache_.release(before[i]->chain, KvCache::After::kForget);
    }
  std::vector<Sequence*> heirs(before.size(), nullptr);  // the first child is the parent itself
  bool room = true;
  for (const std::int32_t p : parents) {
    const auto parent = static_cast<std::size_t>(p);
    std::unique_ptr<Sequence> s;
    if (!heirs[parent]) {
      s = std::move(before[parent]);
      heirs[parent] = s.get();
    } else {
      s = std::make_unique<Sequence>();
      s->seed = heirs[parent]->seed;
      s->chain.root = root;
      s->chain.retention = retention;
      reserve(group, *s);
      room = room && copy_member(*heirs[parent], *s);
      if (!room) s->tokens = heirs[parent]->tokens;
    }
    s->index = static_cast<std::int32_t>(group.members.size());
    group.members.push_back(std::move(s));
  }
  if (!room) preempt(running_.find({group.order, group.id}));
}

void Scheduler::end(SequenceGroup& group, Sequence& s) {
  check(!s.done, "an answer ends once");
  if (s.row >= 0) {
    group.most_pages = std::max(group.most_pages, held(group));
    planned_[static_cast<std::size_t>(s.row)] = {};
    table_.free_row(std::exchange(s.row, -1));
    cache_.release(s.chain, after(group));
    --rows_promised_;
  }
  s.cached = 0;
  s.attached = false;
  s.done = true;
  group.promised = pages_to_promise(group);
}

void Scheduler::remove(RequestId id) {
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return;
  SequenceGroup& group = *known->second;
  by_id_.erase(known);
  for (const auto& s : group.members)
    if (const auto answer = static_cast<double>(group.generated(*s)); answer > 0)
      usual_answer_ += (answer - usual_answer_) * (usual_answer_ == 0 ? 1 : kNewest);
  Queue& queue = group.phase == Phase::kRunning ? running_ : waiting_;
  if (group.phase == Phase::kRunning) stop_running(group, after(group));
  cache_.close_root(group.members[0]->chain.root);
  group.phase = Phase::kGone;
  auto node = queue.extract({group.order, group.id});
  gone_.push_back(std::move(node.mapped()));
}

void Scheduler::set_ready(RequestId id) {
  if (SequenceGroup* group = find(id)) group->ready = true;
}

SequenceGroup* Scheduler::find(RequestId id) {
  const auto known = by_id_.find(id);
  return known == by_id_.end() ? nullptr : known->second;
}

RequestState Scheduler::state(RequestId id) const {
  const auto known = by_id_.find(id);
  if (known == by_id_.end()) return {.phase = Phase::kGone};
  const SequenceGroup& group = *known->second;
  RequestState state{.phase = group.phase, .preemptions = group.preemptions};
  if (group.phase != Phase::kWaiting) return state;
  state.pages_free = cache_.available() - outstanding();
  for (const auto& [order, other] : waiting_) {
    if (other.get() == &group) break;
    state.ahead += other->ready;
  }
  state.reason = !group.ready      ? WaitReason::kNotReady
                 : state.ahead > 0 ? WaitReason::kQueue
                                   : head_reason_;
  if (state.reason == WaitReason::kPages) state.pages_wanted = head_pages_;
  return state;
}

void Scheduler::check_integrity() const {
  std::vector<const PageChain*> chains;
  std::int64_t rows = 0;
  for (const auto& [order, group] : running_) {
    check(group->phase == Phase::kRunning, "a running request runs");
    rows += group->width;
    for (const auto& s : group->members) {
      rows -= s->done;
      if (s->done) {
        check(s->row < 0 && s->chain.pages.empty(), "an answer that ended holds nothing");
        continue;
      }
      chains.push_back(&s->chain);
      check(s->cached < s->tokens.size() && s->tokens.size() <= group->limit,
            "a running sequence has a token to compute");
      check(s->row >= 0, "a running sequence has a row");
      check(std::ssize(s->chain.pages) >= cache_.pages_for(s->cached), "cached tokens have pages");
      const auto row = table_.entries().subspan(static_cast<std::size_t>(s->row * table_.pages()),
                                                s->chain.pages.size());
      for (std::size_t p = 0; p < s->chain.pages.size(); ++p)
        check(s->chain.pages[p] == kNoPage || row[p] == s->chain.pages[p],
              "the block table says where pages are");
    }
  }
  check(rows == rows_promised_, "rows are accounted for");
  for (const auto& [order, group] : waiting_) {
    check(group->phase == Phase::kWaiting, "a waiting request waits");
    for (const auto& s : group->members)
      check(s->chain.pages.empty() && s->cached == 0 && s->row < 0,
            "a waiting sequence holds nothing");
  }
  cache_.check_integrity(chains);
  check(by_id_.size() == waiting_.size() + running_.size(), "every request is in one queue");
}

}  // namespace ingot
