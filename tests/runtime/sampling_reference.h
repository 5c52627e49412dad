#pragma once

#include "ingot/sampling_params.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ingot::test {

// Everything a draw depends on, seed and callback apart.
struct SamplingCase {
  std::vector<float> logits;
  SamplingParams params;
  std::vector<std::int32_t> prompt = {};
  std::vector<std::int32_t> answer = {};
  std::vector<std::int32_t> forbidden = {};
  std::vector<bool> allowed = {};  // by id; empty: all
};

// Probabilities of the next token by the documented order of stages, in f64, with plain loops over
// the whole sequence and full sorts. All 0 where nothing is allowed; of a temperature of 0 the
// token taken is 1.
std::vector<double> reference_distribution(const SamplingCase& c);

// Stages before the temperature: [vocab], -infinity for what is banned.
std::vector<double> reference_logits(const SamplingCase& c);

}  // namespace ingot::test
