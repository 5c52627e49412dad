#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace ingot {

// One position of one request, for a callback that changes its logits.
struct LogitsView {
  std::span<const std::int32_t> tokens;  // prompt and answer so far
  std::size_t prompt_tokens = 0;         // of these
  // [vocab], as the model gave them, of a beam log-probabilities; -infinity: never.
  std::span<float> logits;
};

// Called before every draw of a request, ahead of everything else that acts on the logits, by the
// thread that runs the steps. What it throws ends its request (kRequest), and so does a logit that
// it leaves as NaN or +infinity.
using LogitsCallback = std::function<void(const LogitsView&)>;

}  // namespace ingot
