#include "runtime/beam_search.h"

#include "base/check.h"
#include "base/error.h"
#include "runtime/logit_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace ingot {

namespace {

constexpr std::int32_t kPrompt = -1;
// Candidates kept between two looks at which of them are the best.
constexpr std::size_t kSlack = 256;

bool better(const BeamStep& a, const BeamStep& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
}

}  // namespace

BeamSearch::BeamSearch(BeamOptions options) : options_(std::move(options)) {
  check(options_.width >= 1 && options_.max_tokens >= 1, "a beam search has a width and a length");
  beams_.push_back({kPrompt, 0.0f});
}

// The best candidates of all beams. So many that enough go on even if every end token of every beam
// is among them.
void BeamSearch::expand(std::span<const float> log_probs) {
  const std::size_t vocab = log_probs.size() / beams_.size();
  const std::size_t wanted = std::max<std::size_t>(2, 1 + options_.end_ids.size()) *
                             static_cast<std::size_t>(options_.width);
  const std::size_t full = wanted + std::max(wanted, kSlack);
  expanded_.clear();
  const auto keep = [&] {
    if (expanded_.size() <= wanted) return;
    const auto end = expanded_.begin() + static_cast<std::ptrdiff_t>(wanted);
    std::nth_element(expanded_.begin(), end - 1, expanded_.end(), better);
    expanded_.resize(wanted);
  };
  float bar = kNoLogit;  // what is no better is not among the best
  for (std::size_t b = 0; b < beams_.size(); ++b) {
    const auto row = log_probs.subspan(b * vocab, vocab);
    if (!peak_of(row).is_sound)
      fail(ErrorCode::kRequest,
           "[beam_search] the log-probabilities are not numbers; the answer ends here");
    const float base =
        beams_[b].score + static_cast<float>(options_.diversity_rate * static_cast<double>(b));
    // A little below the bar, since the sum is rounded.
    const auto least = [&] {
      const float slack = 1e-5f * (std::abs(bar) + std::abs(base));
      return bar == kNoLogit ? std::numeric_limits<float>::lowest() : bar - base - slack;
    };
    for (std::size_t i = next_at_least(row, least()); i < vocab;
         i = next_at_least(row, least(), i + 1)) {
      const float score = row[i] + base;
      if (!(score > bar)) continue;
      expanded_.push_back({static_cast<std::int32_t>(b), static_cast<std::int32_t>(i), score});
      if (expanded_.size() < full) continue;
      keep();
      bar = expanded_.back().score;  // of equals the earlier ones stay
    }
  }
  keep();
  std::sort(expanded_.begin(), expanded_.end(), better);
}

std::int32_t BeamSearch::grow(const BeamStep& step) {
  nodes_.push_back({beams_[static_cast<std::size_t>(step.parent)].node, step.token});
  taken_.push_back(step);
  return static_cast<std::int32_t>(nodes_.size() - 1);
}

double BeamSearch::normalised(float score, std::size_t tokens) const {
  return static_cast<double>(score) /
         std::pow(static_cast<double>(tokens), options_.length_penalty);
}

void BeamSearch::finish(const BeamStep& step, BeamEnd end) {
  const auto score = static_cast<float>(normalised(step.score, tokens_));
  const auto place = std::ranges::upper_bound(finished_, score, std::greater<>(), &Finished::score);
  const auto width = static_cast<std::size_t>(options_.width);
  if (finished_.size() == width && place == finished_.end()) return;
  finished_.insert(place, {grow(step), score, end});
  if (finished_.size() > width) finished_.pop_back();
}

// Whether a live beam, the best of which has this score, may become better than the worst
// hypothesis. With kHeuristic it is taken as if it ended now, which a length penalty may belie.
bool BeamSearch::can_improve(float best_score) const {
  if (finished_.size() < static_cast<std::size_t>(options_.width)) return true;
  const bool at_its_longest =
      options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0.0;
  const double attainable = normalised(best_score, at_its_longest ? options_.max_tokens : tokens_);
  return static_cast<float>(attainable) > finished_.back().score;
}

std::span<const BeamStep> BeamSearch::advance(std::span<const float> log_probs,
                                              const Stops& stops) {
  check(!beams_.empty() && !log_probs.empty() && log_probs.size() % beams_.size() == 0,
        "a row for every live beam");
  expand(log_probs);
  ++tokens_;
  const auto width = static_cast<std::size_t>(options_.width);
  const auto& ends = options_.end_ids;
  steps_.clear();
  next_.clear();
  taken_.clear();
  for (std::size_t i = 0; i < expanded_.size(); ++i) {
    const BeamStep& step = expanded_[i];
    const bool is_end = std::find(ends.begin(), ends.end(), step.token) != ends.end();
    const bool is_stop = !is_end && stops && stops(step);
    if (is_end || is_stop || tokens_ == options_.max_tokens) {
      // Those behind the best `width` are there to go on, not to end.
      if (i < width)
        finish(step, is_end ? BeamEnd::kEndToken : is_stop ? BeamEnd::kStopped : BeamEnd::kLength);
    } else if (steps_.size() < width) {
      steps_.push_back(step);
    }
  }
  for (const BeamStep& step : steps_) next_.push_back({grow(step), step.score});
  const bool is_full = finished_.size() == width;
  const bool ends_now = is_full && options_.early_stopping == EarlyStopping::kTrue;
  if (steps_.empty() || ends_now || !can_improve(steps_.front().score)) {
    steps_.clear();
    next_.clear();
  }
  std::swap(beams_, next_);
  return steps_;
}

std::vector<BeamHypothesis> BeamSearch::best(std::size_t count) const {
  check(beams_.empty(), "a beam search is asked for its result when it is over");
  std::vector<BeamHypothesis> result;
  for (const Finished& f : finished_) {
    if (result.size() == count) break;
    BeamHypothesis& h = result.emplace_back(
        BeamHypothesis{.tokens = {}, .steps = {}, .score = f.score, .end = f.end});
    for (std::int32_t node = f.node; node != kPrompt;) {
      const auto place = static_cast<std::size_t>(node);
      h.tokens.push_back(nodes_[place].token);
      h.steps.push_back(place);
      node = nodes_[place].parent;
    }
    std::ranges::reverse(h.tokens);
    std::ranges::reverse(h.steps);
  }
  return result;
}

}  // namespace ingot
