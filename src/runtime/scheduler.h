#pragma once

#include "runtime/batch.h"
#include "runtime/block_pool.h"
#include "runtime/sequence.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace ingot {

struct SchedulerLimits {
  std::int64_t max_tokens = 0;     // of a step
  std::int64_t max_sequences = 0;  // of a step
  std::int64_t page_tokens = 0;
  std::int64_t kv_pages = 0;
};

// What a step will do: the arrays for the device, and whose rows they are.
struct ScheduledStep {
  Batch batch;
  std::vector<Sequence*> sequences;  // by row of block_table
  std::vector<Sequence*> sampled;    // by entry of batch.rows
};

// Decides who runs next. Pure bookkeeping, no device. Decodes go first, then prompts in order of
// arrival, in chunks that fill the step's token budget. A sequence starts when pages for its limit
// are free, so none is ever evicted.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  // The sequence waits. Its limit must fit the pool (fits()).
  Sequence& add(std::unique_ptr<Sequence> sequence);
  bool fits(std::size_t limit) const;
  bool has_work() const { return !waiting_.empty() || !running_.empty(); }

  // The next step; empty when nobody can run.
  ScheduledStep next();
  // The step has run: its tokens are cached. Call before appending drawn tokens.
  void commit(const ScheduledStep& step);
  // Takes a sequence out, waiting or running; its pages are free at once.
  void remove(RequestId id);

  Sequence* find(RequestId id);
  const BlockPool& pool() const { return pool_; }
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t running() const { return running_.size(); }
  void check_integrity() const;

 private:
  void admit();
  void append(ScheduledStep& step, Sequence& sequence, std::size_t count) const;

  SchedulerLimits limits_;
  BlockPool pool_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
};

}  // namespace ingot
