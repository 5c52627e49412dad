#include "tests/llm/whole_answers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <utility>

namespace ingot::test {

namespace {

template <typename T>
void put_before(std::vector<T>&& first, std::vector<T>& list) {
  list.insert(list.begin(), std::make_move_iterator(first.begin()),
              std::make_move_iterator(first.end()));
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool same(const TokenLogprob& a, const TokenLogprob& b) {
  return a.token == b.token && same_bits(a.logprob, b.logprob) &&
         std::ranges::equal(a.top, b.top, [](const auto& x, const auto& y) {
           return x.first == y.first && same_bits(x.second, y.second);
         });
}

std::string text_of(const TokenLogprob& t) {
  return fmt::format("token {} {:a} ({})", t.token, t.logprob, t.logprob);
}

std::string difference_of(const char* what, const std::vector<TokenLogprob>& wanted,
                          const std::vector<TokenLogprob>& got) {
  const auto [a, b] = std::ranges::mismatch(wanted, got, same);
  if (a == wanted.end() || b == got.end()) return {};
  return fmt::format("{} {}: {} in place of {}", what, a - wanted.begin(), text_of(*b),
                     text_of(*a));
}

}  // namespace

void WholeAnswers::take(OutputEvent&& event) {
  std::vector<OutputEvent>& answers = answers_[event.id];
  if (std::ranges::any_of(answers, &OutputEvent::last)) wrong_ = "an event after the last";
  const auto index = static_cast<std::size_t>(event.index);
  if (index > answers.size() + 128) wrong_ = "an answer that nobody asked for";
  if (answers.size() <= index) answers.resize(index + 1);
  OutputEvent& whole = answers[index];
  if (whole.finish != FinishReason::kRunning) wrong_ = "an event after an answer's end";
  event.text = std::move(whole.text) + event.text;
  put_before(std::move(whole.tokens), event.tokens);
  put_before(std::move(whole.logprobs), event.logprobs);
  put_before(std::move(whole.prompt_logprobs), event.prompt_logprobs);
  whole = std::move(event);
}

const std::vector<OutputEvent>& WholeAnswers::of(RequestId id) const {
  static const std::vector<OutputEvent> none;
  const auto known = answers_.find(id);
  return known == answers_.end() ? none : known->second;
}

bool WholeAnswers::ended(RequestId id) const {
  return std::ranges::any_of(of(id), &OutputEvent::last);
}

std::string difference(const OutputEvent& wanted, const OutputEvent& got, bool is_beginning) {
  const auto [a, b] = std::ranges::mismatch(wanted.tokens, got.tokens);
  const bool stops = is_beginning && b == got.tokens.end();
  // Logprobs first: the bits of an answer part before its tokens do.
  for (std::string text :
       {difference_of("logprob of the prompt", wanted.prompt_logprobs, got.prompt_logprobs),
        difference_of("logprob", wanted.logprobs, got.logprobs)})
    if (!text.empty()) return text;
  if (!stops && wanted.tokens != got.tokens)
    return fmt::format("token {}: {} in place of {}", a - wanted.tokens.begin(), got.tokens,
                       wanted.tokens);
  if (stops) return {};
  if (wanted.logprobs.size() != got.logprobs.size() ||
      wanted.prompt_logprobs.size() != got.prompt_logprobs.size())
    return fmt::format("{} and {} logprobs of answer and prompt in place of {} and {}",
                       got.logprobs.size(), got.prompt_logprobs.size(), wanted.logprobs.size(),
                       wanted.prompt_logprobs.size());
  if (wanted.text != got.text)
    return fmt::format("text '{}' in place of '{}'", got.text, wanted.text);
  if (wanted.finish != got.finish || wanted.error != got.error)
    return fmt::format("end '{}{}' in place of '{}{}'", to_string(got.finish), got.error,
                       to_string(wanted.finish), wanted.error);
  if (std::bit_cast<std::uint64_t>(wanted.score) != std::bit_cast<std::uint64_t>(got.score))
    return fmt::format("score {} in place of {}", got.score, wanted.score);
  return {};
}

}  // namespace ingot::test
