#include "runtime/scheduler.h"

#include "base/check.h"

#include <algorithm>
#include <utility>

namespace ingot {

namespace {

std::int64_t pages_for(std::size_t tokens, std::int64_t page_tokens) {
  return (static_cast<std::int64_t>(tokens) + page_tokens - 1) / page_tokens;
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits) : limits_(limits), pool_(limits.kv_pages) {
  check(limits.max_tokens >= limits.max_sequences && limits.max_sequences >= 1 &&
            limits.page_tokens >= 1,
        "every running sequence decodes in one step");
}

Sequence& Scheduler::add(std::unique_ptr<Sequence> sequence) {
  check(!sequence->tokens.empty() && sequence->limit > sequence->prompt_tokens,
        "a sequence has a prompt and room");
  check(fits(sequence->limit), "a sequence larger than the pool");
  waiting_.push_back(std::move(sequence));
  return *waiting_.back();
}

bool Scheduler::fits(std::size_t limit) const {
  return pages_for(limit, limits_.page_tokens) <= pool_.capacity();
}

// In order of arrival: nobody is overtaken, so nobody starves.
void Scheduler::admit() {
  while (!waiting_.empty() && static_cast<std::int64_t>(running_.size()) < limits_.max_sequences) {
    Sequence& next = *waiting_.front();
    if (!pool_.try_allocate(pages_for(next.limit, limits_.page_tokens), next.pages)) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Scheduler::append(ScheduledStep& step, Sequence& s, std::size_t count) const {
  Batch& b = step.batch;
  for (std::size_t i = s.cached; i < s.cached + count; ++i) {
    const auto page = static_cast<std::size_t>(i) / static_cast<std::size_t>(limits_.page_tokens);
    const auto offset = static_cast<std::int64_t>(i) % limits_.page_tokens;
    b.ids.push_back(s.tokens[i]);
    b.positions.push_back(static_cast<std::int32_t>(i));
    b.slots.push_back(static_cast<std::int32_t>(s.pages[page] * limits_.page_tokens + offset));
    b.rope_row.push_back(s.rope_row);
  }
  b.query_start.push_back(static_cast<std::int32_t>(b.ids.size()));
  b.context_len.push_back(static_cast<std::int32_t>(s.cached + count));
  step.sequences.push_back(&s);
  if (s.cached + count == s.tokens.size()) {
    b.rows.push_back(static_cast<std::int32_t>(b.ids.size()) - 1);
    step.sampled.push_back(&s);
  }
}

ScheduledStep Scheduler::next() {
  admit();
  ScheduledStep step;
  step.batch.query_start.push_back(0);
  std::int64_t budget = limits_.max_tokens;
  // A sequence that wants one token decodes; the others have prompt left.
  for (const bool decodes : {true, false}) {
    for (const auto& s : running_) {
      const std::size_t left = s->tokens.size() - s->cached;
      if ((left == 1) != decodes || budget == 0) continue;
      const auto count = std::min<std::int64_t>(static_cast<std::int64_t>(left), budget);
      append(step, *s, static_cast<std::size_t>(count));
      budget -= count;
    }
  }
  Batch& b = step.batch;
  std::int64_t longest = 1;
  for (const std::int32_t context : b.context_len)
    longest = std::max(longest, pages_for(static_cast<std::size_t>(context), limits_.page_tokens));
  b.pages = longest;
  for (const Sequence* s : step.sequences) {
    for (std::int64_t p = 0; p < b.pages; ++p)
      b.block_table.push_back(p < static_cast<std::int64_t>(s->pages.size())
                                  ? s->pages[static_cast<std::size_t>(p)]
                                  : 0);
  }
  return step;
}

void Scheduler::commit(const ScheduledStep& step) {
  for (std::size_t i = 0; i < step.sequences.size(); ++i)
    step.sequences[i]->cached = static_cast<std::size_t>(step.batch.context_len[i]);
}

Sequence* Scheduler::find(RequestId id) {
  for (const auto& s : running_)
    if (s->id == id) return s.get();
  for (const auto& s : waiting_)
    if (s->id == id) return s.get();
  return nullptr;
}

void Scheduler::remove(RequestId id) {
  const auto is_it = [&](const std::unique_ptr<Sequence>& s) { return s->id == id; };
  if (const auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
    pool_.release((*it)->pages);
    running_.erase(it);
    return;
  }
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), is_it);
  if (it != waiting_.end()) waiting_.erase(it);
}

void Scheduler::check_integrity() const {
  std::vector<const std::vector<PageId>*> holders;
  for (const auto& s : running_) {
    holders.push_back(&s->pages);
    check(s->cached < s->tokens.size() && s->tokens.size() <= s->limit,
          "a running sequence has a token to compute");
    check(static_cast<std::int64_t>(s->pages.size()) == pages_for(s->limit, limits_.page_tokens),
          "pages for its limit");
  }
  for (const auto& s : waiting_)
    check(s->pages.empty() && s->cached == 0, "a waiting sequence holds nothing");
  pool_.check_integrity(holders);
}

}  // namespace ingot
