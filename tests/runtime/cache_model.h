#pragma once

#include "runtime/scheduler.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ingot::test {

// A device that keeps, where K and V would be, a fingerprint of all tokens up to that position, and
// so can say whether a sequence reads its own past.
class CacheModel {
 public:
  explicit CacheModel(const SchedulerLimits& limits);

  // Runs the step as a device would: moves pages, takes changes of the block table, writes, reads.
  // "" or what is wrong. `fails`: it stops after having moved half of what there is to move.
  std::string run(const ScheduledStep& step, bool fails = false);

  std::int64_t moved() const { return moved_; }

 private:
  std::string check_arrays(const ScheduledStep& step) const;
  std::string check_table(const ScheduledStep& step);
  std::string read_back(const ScheduledStep::Entry& entry, std::int32_t row) const;

  SchedulerLimits limits_;
  std::vector<std::uint64_t> device_;  // [pages, page_tokens]
  std::vector<std::uint64_t> host_;    // [host_pages, page_tokens]
  std::vector<std::int32_t> table_;    // [max_sequences, max_pages], by its changes
  std::int64_t moved_ = 0;
};

}  // namespace ingot::test
