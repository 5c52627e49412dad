#pragma once

#include "plan/engine_info.h"
#include "runtime/executor.h"
#include "runtime/request_record.h"
#include "runtime/sampler.h"
#include "runtime/scheduler.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace ingot {

// Guesses what a model will say by asking a smaller one with the same vocabulary. It draws as the
// model will, with the same parameters, seed and position, so that both say the same wherever they
// agree. It has a KV cache and books of its own, which follow the model's sequences.
class DraftModel {
 public:
  // All outlive this. At most `most` tokens are guessed at once.
  DraftModel(Executor& executor, const EngineInfo& info, std::size_t most);

  // A sequence of the model that has one token to compute, and room for `room` guesses.
  struct Target {
    RequestRecord* record = nullptr;
    Sequence* sequence = nullptr;
    std::size_t room = 0;
  };
  // Fills sequence->drafts, where it can in as many steps as tokens are guessed: a prompt that it
  // has not read yet goes unguessed. Throws Error{kDevice}, after which it has forgotten all.
  void guess(std::span<const Target> targets);
  std::size_t most() const { return most_; }
  // A request has ended.
  void forget(RequestId id);

  void check_integrity() const { scheduler_.check_integrity(); }

 private:
  using Key = std::pair<RequestId, std::int32_t>;  // a request's answer
  struct Follower {
    SequenceGroup* group = nullptr;
    std::size_t agreed = 0;          // tokens of the model that it was told
    const Target* target = nullptr;  // of the call
    std::size_t pushed = 0;          // guesses that the target's state has seen
  };

  bool follow(Follower& follower, const Target& target);
  void run_step();
  void take(const ScheduledStep::Row& row, std::span<const float> logits);
  void forget_all();

  Executor& executor_;
  std::size_t limit_;  // tokens of a sequence
  std::size_t most_;
  Scheduler scheduler_;
  Sampler sampler_;
  std::map<Key, Follower> followers_;
  std::map<RequestId, Follower*> by_group_;
  RequestId next_group_ = 1;
};

}  // namespace ingot
