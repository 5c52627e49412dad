#pragma once

#include "builder/checkpoint.h"
#include "plan/plan.h"

#include <cstddef>
#include <string>
#include <vector>

namespace ingot {

// The canonical rows of plan weights, made from checkpoint slots: parts joined as the recipe says,
// converted where the plan wants another format than the file holds.
class WeightRows {
 public:
  // `constants` are weights that come from no file, f32, by name (rope tables).
  WeightRows(const Checkpoint& checkpoint, std::map<std::string, std::vector<float>> constants)
      : checkpoint_(checkpoint), constants_(std::move(constants)) {}

  // [rows, k] in the plan's format. Throws Error{kBadInput} naming the tensor.
  std::vector<std::byte> rows(const PlanWeight& weight) const;

 private:
  std::vector<std::byte> part(const std::string& slot, const WeightFormat& format) const;

  const Checkpoint& checkpoint_;
  std::map<std::string, std::vector<float>> constants_;
};

}  // namespace ingot
