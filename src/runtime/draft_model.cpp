#include "runtime/draft_model.h"

#include "base/check.h"
#include "base/error.h"

#include <algorithm>
#include <string>

namespace ingot {

DraftModel::DraftModel(Executor& executor, const EngineInfo& info, std::size_t most)
    : executor_(executor),
      limit_(static_cast<std::size_t>(
          std::min(info.max_seq, executor.kv_pages() * executor.plan().page_tokens))),
      most_(most),
      scheduler_({.max_tokens = executor.plan().max[Symbol::kTokens],
                  .max_sequences = executor.plan().max[Symbol::kSequences],
                  .max_pages = executor.plan().max[Symbol::kPages],
                  .page_tokens = executor.plan().page_tokens,
                  .kv_pages = executor.kv_pages()}) {
  sampler_.reserve(static_cast<std::size_t>(executor.vocab()));
}

void DraftModel::guess(std::span<const Target> targets) {
  for (const Target& target : targets) {
    target.sequence->drafts.clear();
    const Key key{target.record->id, target.sequence->index};
    const auto [at, is_new] = followers_.try_emplace(key);
    if (!follow(at->second, target)) {
      if (at->second.group) scheduler_.remove(at->second.group->id);
      if (at->second.group) by_group_.erase(at->second.group->id);
      followers_.erase(at);
    }
  }
  try {
    for (std::size_t step = 0; step < most_; ++step) run_step();
  } catch (...) {
    forget_all();
    throw;
  }
  for (auto& [key, follower] : followers_) {
    if (!follower.target) continue;
    const auto index = static_cast<std::size_t>(follower.target->sequence->index);
    follower.target->record->answers[index]->state.pop(std::exchange(follower.pushed, 0));
    follower.target = nullptr;
  }
}

// Its sequence is the model's again: what was guessed wrong goes. False when it has no room.
bool DraftModel::follow(Follower& follower, const Target& target) {
  const std::vector<std::int32_t>& tokens = target.sequence->tokens;
  if (tokens.size() + most_ > limit_ || target.room == 0) return false;
  if (!follower.group) {
    auto group = std::make_unique<SequenceGroup>();
    group->id = next_group_++;
    group->prompt_tokens = target.record->prompt_tokens;
    group->limit = limit_;
    group->order = static_cast<std::int64_t>(group->id);
    group->members.push_back(std::make_unique<Sequence>());
    group->members[0]->tokens = tokens;
    if (!scheduler_.fits(group->prompt_tokens, group->limit, 1)) return false;
    // Prompts may be secrets of a tenant; what is shared here is only ever a guess, but its time
    // would tell.
    group->share = false;
    follower.group = &scheduler_.add(std::move(group), "");
    by_group_[follower.group->id] = &follower;
  } else {
    Sequence& own = *follower.group->members[0];
    std::size_t same = std::min(follower.agreed, own.tokens.size());
    while (same < own.tokens.size() && same < tokens.size() && own.tokens[same] == tokens[same])
      ++same;
    scheduler_.rewind(own, std::min(same, tokens.size() - 1));
    own.tokens.insert(own.tokens.end(),
                      tokens.begin() + static_cast<std::ptrdiff_t>(own.tokens.size()),
                      tokens.end());
  }
  follower.agreed = tokens.size();
  follower.target = &target;
  follower.pushed = 0;
  return true;
}

void DraftModel::run_step() {
  const ScheduledStep& step = scheduler_.next(0);
  if (step.empty()) return;
  const auto vocab = static_cast<std::size_t>(executor_.vocab());
  executor_.run(step.batch,
                [&](std::int64_t first, std::int64_t count, std::span<const float> logits) {
                  for (std::int64_t r = 0; r < count; ++r)
                    take(step.rows[static_cast<std::size_t>(first + r)],
                         logits.subspan(static_cast<std::size_t>(r) * vocab, vocab));
                });
  scheduler_.commit(step);
  for (const ScheduledStep::Row& row : step.rows) {
    const Follower& follower = *by_group_.at(row.group->id);
    if (!follower.target) continue;
    const auto& drafts = follower.target->sequence->drafts;
    const std::size_t want = std::min(most_, follower.target->room);
    // The last guess is not computed on: nobody would read it.
    const std::size_t guessed_to = follower.target->sequence->tokens.size() + drafts.size();
    if (row.position + 2 == guessed_to && drafts.size() < want)
      row.sequence->tokens.push_back(drafts.back());
  }
}

void DraftModel::take(const ScheduledStep::Row& row, std::span<const float> logits) {
  Follower& follower = *by_group_.at(row.group->id);
  if (!follower.target) return;
  const Target& target = *follower.target;
  const RequestRecord& record = *target.record;
  AnswerRecord& answer = *record.answers[static_cast<std::size_t>(target.sequence->index)];
  try {
    const std::int32_t token = sampler_.draw(
        logits, record.sampling,
        {.state = answer.state, .seed = target.sequence->seed, .position = row.position + 1});
    target.sequence->drafts.push_back(token);
    answer.state.push(token);
    ++follower.pushed;
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kRequest) throw;  // it has no guess
  }
}

void DraftModel::forget(RequestId id) {
  for (auto at = followers_.lower_bound({id, 0});
       at != followers_.end() && at->first.first == id;) {
    scheduler_.remove(at->second.group->id);
    by_group_.erase(at->second.group->id);
    at = followers_.erase(at);
  }
}

void DraftModel::forget_all() {
  for (auto& [key, follower] : followers_) {
    if (follower.target) {
      const auto index = static_cast<std::size_t>(follower.target->sequence->index);
      follower.target->record->answers[index]->state.pop(follower.pushed);
      follower.target->sequence->drafts.clear();
    }
    scheduler_.remove(follower.group->id);
  }
  followers_.clear();
  by_group_.clear();
  scheduler_.abandon();
}

}  // namespace ingot
