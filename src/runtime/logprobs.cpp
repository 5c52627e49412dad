#include "runtime/logprobs.h"

#include "base/check.h"
#include "base/error.h"
#include "runtime/logit_row.h"

#include <algorithm>
#include <cmath>

namespace ingot {

void Logprobs::read(std::span<const float> logits, std::int32_t token, std::int32_t top,
                    TokenLogprob& result) {
  check(token >= 0 && static_cast<std::size_t>(token) < logits.size(), "a token has a logit");
  const RowPeak peak = peak_of(logits);
  if (!peak.is_sound || peak.largest == kNoLogit)
    fail(ErrorCode::kRequest,
         "[logprobs] the model's logits are not numbers; the answer ends here");
  const double base =
      static_cast<double>(peak.largest) + std::log(Weigher(peak.largest, 1.0).sum(logits));
  const auto logprob = [&](std::int32_t id) {
    const double x = static_cast<double>(logits[static_cast<std::size_t>(id)]) - base;
    return std::max(static_cast<float>(x), kLeastLogprob);
  };
  result.token = token;
  result.logprob = logprob(token);
  result.top.clear();
  if (top <= 0) return;
  select_top(logits, static_cast<std::size_t>(top), top_);
  std::sort(top_.begin(), top_.end(), likelier);
  result.top.reserve(top_.size());
  for (const Candidate& x : top_) result.top.emplace_back(x.id, logprob(x.id));
}

}  // namespace ingot
