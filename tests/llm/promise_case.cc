#include "tests/llm/promise_case.h"

#include <fmt/format.h>

#include "tests/runtime/shrink.h"
#include <concepts>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ingot::test {

namespace {

// One list of fields says how a case is written down and what can be made simpler in it.
template <typename T, typename Value>
struct Field {
  std::string_view name;
  Value T::* member;
};
template <typename T, typename Value>
Field(std::string_view, Value T::*) -> Field<T, Value>;

constexpr auto fields_of(const Conditions*) {
  using C = Conditions;
  return std::tuple(Field{"step_tokens", &C::step_tokens}, Field{"sequences", &C::sequences},
                    Field{"head_rows", &C::head_rows}, Field{"pages", &C::pages},
                    Field{"host_pages", &C::host_pages}, Field{"policy", &C::policy},
                    Field{"overlap", &C::overlap}, Field{"threads", &C::threads},
                    Field{"guesser", &C::guesser});
}

constexpr auto fields_of(const SamplingParams*) {
  using P = SamplingParams;
  return std::tuple(
      Field{"temperature", &P::temperature}, Field{"top_k", &P::top_k}, Field{"top_p", &P::top_p},
      Field{"top_p_decay", &P::top_p_decay}, Field{"min_p", &P::min_p},
      Field{"typical_p", &P::typical_p}, Field{"repetition_penalty", &P::repetition_penalty},
      Field{"presence_penalty", &P::presence_penalty},
      Field{"frequency_penalty", &P::frequency_penalty},
      Field{"no_repeat_ngram_size", &P::no_repeat_ngram_size}, Field{"logit_bias", &P::logit_bias},
      Field{"bad_token_ids", &P::bad_token_ids}, Field{"seed", &P::seed},
      Field{"max_tokens", &P::max_tokens}, Field{"min_tokens", &P::min_tokens},
      Field{"ignore_eos", &P::ignore_eos}, Field{"stop", &P::stop},
      Field{"stop_token_ids", &P::stop_token_ids}, Field{"n", &P::n}, Field{"best_of", &P::best_of},
      Field{"logprobs", &P::logprobs}, Field{"prompt_logprobs", &P::prompt_logprobs},
      Field{"beam_width", &P::beam_width}, Field{"length_penalty", &P::length_penalty});
}

constexpr auto fields_of(const PromisedRequest*) {
  using R = PromisedRequest;
  return std::tuple(Field{"family", &R::family}, Field{"common", &R::common}, Field{"own", &R::own},
                    Field{"text", &R::text}, Field{"continues", &R::continues},
                    Field{"arrives", &R::arrives}, Field{"cancelled", &R::cancelled},
                    Field{"changes_logits", &R::changes_logits}, Field{"salt", &R::salt},
                    Field{"share_cache", &R::share_cache}, Field{"priority", &R::priority},
                    Field{"guided", &R::guided}, Field{"description", &R::description},
                    Field{"sampling", &R::sampling});
}

template <typename T>
concept HasFields = requires(const T* t) { fields_of(t); };

// What a field is as ever. An answer has an end, and a draw is always the same one.
template <typename T>
T as_ever() {
  T t{};
  if constexpr (std::same_as<T, PromisedRequest>) t.sampling = as_ever<SamplingParams>();
  if constexpr (std::same_as<T, SamplingParams>) {
    t.max_tokens = 1;
    t.seed = 0;
  }
  return t;
}

std::string_view enum_name(SchedulerPolicy) {
  return "SchedulerPolicy";
}
std::string_view enum_name(Guesser) {
  return "Guesser";
}
std::string_view enum_name(GuidedKind) {
  return "GuidedKind";
}

template <typename T>
std::string written(const T& value);
template <typename K, typename V>
std::string written(const std::pair<K, V>& value) {
  return "{" + written(value.first) + ", " + written(value.second) + "}";
}

template <typename Range>
std::string written_list(const Range& values) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : ", ") + written(value);
  return "{" + text + "}";
}

// {.name = value, ...} of what differs from `ever`.
template <HasFields T>
std::string written_fields(const T& value, const T& ever) {
  std::string text;
  const auto add = [&](const auto& field) {
    std::string one = written(value.*field.member);
    if (one == written(ever.*field.member)) return;
    text += fmt::format("{}.{} = {}", text.empty() ? "" : ", ", field.name, one);
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, fields_of(&value));
  return "{" + text + "}";
}

template <typename T>
std::string written(const T& value) {
  if constexpr (HasFields<T>)
    return written_fields(value, T{});
  else if constexpr (std::is_enum_v<T>)
    return fmt::format("{}{{{}}}", enum_name(value), static_cast<int>(value));
  else if constexpr (std::is_arithmetic_v<T>)
    return fmt::format("{}", value);
  else if constexpr (std::convertible_to<T, std::string_view>)
    return fmt::format("R\"({})\"", value);
  else if constexpr (std::same_as<T, std::optional<std::uint64_t>>)
    return value ? written(*value) : "std::nullopt";
  else
    return written_list(value);
}

// Calls `consider` with each value that is a little simpler than `value`.
template <typename T>
void simpler(const T& value, const T& ever, const std::function<void(const T&)>& consider) {
  if constexpr (HasFields<T>) {
    const auto try_field = [&](const auto& field) {
      using Value = std::remove_cvref_t<decltype(value.*field.member)>;
      simpler<Value>(value.*field.member, ever.*field.member, [&](const Value& one) {
        T less = value;
        less.*field.member = one;
        consider(less);
      });
    };
    std::apply([&](const auto&... field) { (try_field(field), ...); }, fields_of(&value));
  } else {
    if (written(value) == written(ever)) return;
    consider(ever);
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      if (const T half = ever + (value - ever) / 2; half != ever) consider(half);
      if (const T next = value > ever ? value - 1 : value + 1; next != ever) consider(next);
    }
  }
}

std::vector<PromiseCase> simpler_cases(const PromiseCase& c) {
  std::vector<PromiseCase> cases;
  for (std::size_t i = 0; i < c.requests.size(); ++i)
    simpler<PromisedRequest>(c.requests[i], as_ever<PromisedRequest>(),
                             [&](const PromisedRequest& request) {
                               cases.push_back(c);
                               cases.back().requests[i] = request;
                             });
  simpler<Conditions>(c.conditions, Conditions{}, [&](const Conditions& conditions) {
    cases.push_back({.conditions = conditions, .requests = c.requests});
  });
  return cases;
}

}  // namespace

std::string to_string(const PromiseCase& c) {
  std::string text = "PromiseCase{.conditions = " + written(c.conditions) + ",\n  .requests = {\n";
  for (const PromisedRequest& request : c.requests) text += "    " + written(request) + ",\n";
  return text + "  }}";
}

PromiseCase shrunk(PromiseCase c, const std::function<bool(const PromiseCase&)>& fails, int most) {
  int asked = 0;
  const auto still_fails = [&](const PromiseCase& less) { return asked++ < most && fails(less); };
  for (bool smaller = true; smaller && asked < most;) {
    const std::size_t before = c.requests.size();
    c.requests =
        shrink<PromisedRequest>(c.requests, [&](const std::vector<PromisedRequest>& requests) {
          return !requests.empty() &&
                 still_fails({.conditions = c.conditions, .requests = requests});
        });
    smaller = c.requests.size() < before;
    // What was tried in vain before `at` is tried again in the next round only.
    for (std::size_t at = 0; asked < most;) {
      std::vector<PromiseCase> cases = simpler_cases(c);
      if (at >= cases.size()) break;
      if (!still_fails(cases[at])) {
        ++at;
        continue;
      }
      c = std::move(cases[at]);
      smaller = true;
    }
  }
  return c;
}

}  // namespace ingot::test
