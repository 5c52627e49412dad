#pragma once

#include "base/threads.h"
#include "builder/checkpoint.h"
#include "plan/plan.h"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ingot {

// The canonical rows of plan weights, made from checkpoint slots: parts joined as the recipe says,
// converted where the plan wants another format than the file holds.
class WeightRows {
 public:
  // `constants` are weights that come from no file, f32, by name (rope tables). Rows are converted
  // by so many threads, 0: what the machine gives; the bytes are the same.
  WeightRows(const Checkpoint& checkpoint, std::map<std::string, std::vector<float>> constants,
             int workers)
      : checkpoint_(checkpoint),
        constants_(std::move(constants)),
        threads_(workers > 0 ? workers : usable_cpus()) {}

  // [rows, k] in the plan's format. Throws Error{kBadInput} naming the tensor.
  std::vector<std::byte> rows(const PlanWeight& weight);

 private:
  std::vector<std::byte> part(const std::string& slot, const WeightFormat& format);
  std::vector<std::byte> converted(const SourceTensor& tensor, std::span<const std::byte> bytes,
                                   const WeightFormat& to);

  const Checkpoint& checkpoint_;
  std::map<std::string, std::vector<float>> constants_;
  ThreadPool threads_;
};

}  // namespace ingot
