#pragma once

#include "ingot/scheduling.h"
#include "runtime/batch.h"
#include "runtime/block_table.h"
#include "runtime/kv_cache.h"
#include "runtime/sequence.h"

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ingot {

struct SchedulerLimits {
  std::int64_t max_tokens = 0;     // of a step
  std::int64_t max_sequences = 0;  // of a step
  std::int64_t max_pages = 0;      // of a sequence
  std::int64_t page_tokens = 0;
  std::int64_t kv_pages = 0;
  std::int64_t host_pages = 0;  // that pages move to before they are forgotten
  KvReach reach;
  SchedulerPolicy policy = SchedulerPolicy::kMaxUtilization;
};

// What a step will do: the arrays for the device, and whose they are.
struct ScheduledStep {
  struct Entry {
    SequenceGroup* group = nullptr;
    Sequence* sequence = nullptr;
    std::size_t begin = 0;   // its first token in this step
    std::size_t count = 0;   // tokens, drafts included
    std::size_t drafts = 0;  // of them, at the end
  };
  // Logits that come out, by entry of batch.rows: what follows the token at `position`.
  struct Row {
    SequenceGroup* group = nullptr;
    Sequence* sequence = nullptr;
    std::size_t position = 0;
  };
  Batch batch;
  std::vector<Entry> entries;
  std::vector<Row> rows;
  std::int64_t decode_tokens = 0;  // the others are of prompts
  std::int64_t preempted = 0;      // requests paused to make room

  bool empty() const { return entries.empty(); }
};

// Decides who runs next. Pure bookkeeping, no device. Every running answer decodes in every step;
// what is left of the step's tokens goes to prompts, oldest first, in chunks. Requests start in
// order, nobody that is ready is overtaken, and the oldest that is ready may pause all others: it
// always goes on, so everybody comes to an end. Costs nothing that grows with the length of a
// sequence. One thread.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // The request waits for its turn. It has one member, whose tokens are the prompt; limit is at
  // least one more and fits().
  SequenceGroup& add(std::unique_ptr<SequenceGroup> group, std::string_view salt);
  // Whether `width` answers of `limit` tokens each, with a prompt in common, fit the whole cache.
  bool fits(std::size_t prompt_tokens, std::size_t limit, std::int32_t width) const;
  bool has_work() const { return !waiting_.empty() || !running_.empty(); }

  // The next step, valid until the next call; empty when nobody can run. `now` in seconds.
  ScheduledStep& next(double now);
  // The step has run: its tokens, without drafts, are cached. Call before appending drawn tokens.
  void commit(const ScheduledStep& step);
  // The step has failed: nothing of it is to be believed. The caller removes its requests.
  void abandon();
  // Nothing that no running request uses is found again.
  void forget_kept() { cache_.forget_kept(); }
  // After tokens of an answer with drafts were accepted: `cached` of its tokens stay.
  void settle(Sequence& sequence, std::size_t cached);
  // Only the first `tokens` of an answer's tokens stay; its pages follow.
  void rewind(Sequence& sequence, std::size_t tokens);
  // More answers after the first token of the first: one for each seed, all alike so far.
  void fork(SequenceGroup& group, std::span<const std::uint64_t> seeds);
  // Member k of a request in lockstep is from now on what member parents[k] was; who is nobody's
  // parent goes. All have computed their last token.
  void follow(SequenceGroup& group, std::span<const std::int32_t> parents);
  // An answer has ended, others of its request go on: its pages are free at once.
  void end(SequenceGroup& group, Sequence& sequence);
  // Takes a request out, waiting or running; its pages are free at once. The group lives until the
  // next step.
  void remove(RequestId id);
  void set_ready(RequestId id);
  // A running request waits until set_ready(): others run meanwhile. Its pages are free, and found
  // again if nobody needs them. Call after commit().
  void hold(SequenceGroup& group);

  SequenceGroup* find(RequestId id);
  RequestState state(RequestId id) const;
  const KvCache& cache() const { return cache_; }
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t running() const { return running_.size(); }
  std::int64_t preemptions() const { return preemptions_; }
  // Throws Error{kBug}.
  void check_integrity() const;

 private:
  using Order = std::pair<std::int64_t, RequestId>;
  using Queue = std::map<Order, std::unique_ptr<SequenceGroup>>;

  bool place(SequenceGroup& group, std::int64_t& prompt_budget);
  bool grow(SequenceGroup& group, Sequence& sequence, std::size_t tokens);
  void preempt(Queue::iterator at);
  void pause(Queue::iterator at);
  void admit(std::int64_t budget);
  bool try_start(SequenceGroup& group, std::int64_t budget);
  bool attach(SequenceGroup& group, Sequence& sequence);
  bool copy_member(const Sequence& from, Sequence& to);
  WaitReason reason_to_wait(SequenceGroup& group);
  std::int64_t pages_to_promise(const SequenceGroup& group) const;
  std::int64_t most_pages(std::size_t prompt_tokens, std::size_t tokens, std::int32_t width) const;
  std::int64_t held(const SequenceGroup& group) const;
  std::int64_t outstanding() const;
  std::int64_t most_held(std::int64_t pages) const {
    return limits_.reach.most_held(pages, limits_.page_tokens, limits_.max_tokens);
  }
  void reserve(const SequenceGroup& group, Sequence& sequence) const;
  void stop_running(SequenceGroup& group, KvCache::After after);
  void write_entry(Sequence& sequence, std::size_t first_page);
  void build();
  void append(const ScheduledStep::Entry& entry);

  SchedulerLimits limits_;
  KvCache cache_;
  BlockTable table_;
  Queue waiting_;
  Queue running_;
  std::vector<std::unique_ptr<SequenceGroup>> gone_;
  std::unordered_map<RequestId, SequenceGroup*> by_id_;
  std::vector<ScheduledStep::Entry> planned_;  // by row of the table
  ScheduledStep step_;
  std::int64_t rows_promised_ = 0;              // answers of all that runs, those to come included
  WaitReason head_reason_ = WaitReason::kNone;  // why the first that waits does
  RequestId head_ = 0;                          // for whom head_pages_ were counted
  std::int64_t head_pages_ = 0;
  std::int64_t preemptions_ = 0;
  double usual_answer_ = 0;  // tokens, a running mean of what ended
};

}  // namespace ingot
