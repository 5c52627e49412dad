#include "llm/sampling_json.h"

#include "llm/request_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

namespace {

struct NumberField {
  std::string_view name;
  double SamplingParams::* to;
};
constexpr NumberField kNumbers[] = {
    {"temperature", &SamplingParams::temperature},
    {"top_p", &SamplingParams::top_p},
    {"top_p_decay", &SamplingParams::top_p_decay},
    {"top_p_min", &SamplingParams::top_p_min},
    {"min_p", &SamplingParams::min_p},
    {"typical_p", &SamplingParams::typical_p},
    {"repetition_penalty", &SamplingParams::repetition_penalty},
    {"presence_penalty", &SamplingParams::presence_penalty},
    {"frequency_penalty", &SamplingParams::frequency_penalty},
    {"length_penalty", &SamplingParams::length_penalty},
    {"beam_search_diversity_rate", &SamplingParams::beam_search_diversity_rate}};

struct CountField {
  std::string_view name;
  std::int32_t SamplingParams::* to;
  CountBounds bounds = {};
};
constexpr CountField kCounts[] = {
    {"max_tokens", &SamplingParams::max_tokens, kTokensOfAnswer},
    {"max_completion_tokens", &SamplingParams::max_tokens, kTokensOfAnswer},
    {"min_tokens", &SamplingParams::min_tokens},
    {"top_k", &SamplingParams::top_k},
    {"top_p_reset_id", &SamplingParams::top_p_reset_id, kTokenIds},
    // TensorRT-LLM's name; it is one id.
    {"top_p_reset_ids", &SamplingParams::top_p_reset_id, kTokenIds},
    {"no_repeat_ngram_size", &SamplingParams::no_repeat_ngram_size, kNgramSizes},
    {"n", &SamplingParams::n, kAnswers},
    {"best_of", &SamplingParams::best_of, kAnswers},
    {"prompt_logprobs", &SamplingParams::prompt_logprobs, kAlternatives},
    {"beam_width", &SamplingParams::beam_width, kAnswers}};

constexpr std::string_view kOthers[] = {"ignore_eos",     "include_stop_str_in_output",
                                        "stop",           "stop_token_ids",
                                        "bad_words",      "bad_token_ids",
                                        "seed",           "logit_bias",
                                        "early_stopping", "use_beam_search",
                                        "logprobs",       "top_logprobs"};

const OrderedJson* find(const OrderedJson& body, std::string_view key) {
  const auto it = body.find(key);
  return it == body.end() || it->is_null() ? nullptr : &*it;
}

std::map<std::int32_t, double> read_bias(const OrderedJson& value) {
  if (!value.is_object()) refuse("[request.logit_bias] wanted an object, token id to number");
  std::map<std::int32_t, double> bias;
  for (const auto& [key, one] : value.items()) {
    std::int32_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0)
      refuse("[request.logit_bias] `{}`: wanted a token id", key.substr(0, 40));
    if (!bias.emplace(id, read_number(one, "logit_bias")).second)
      refuse("[request.logit_bias] token {} comes twice", id);
  }
  return bias;
}

// One sequence of ids or an array of such.
std::vector<std::vector<std::int32_t>> read_sequences(const OrderedJson& value) {
  if (!value.is_array()) refuse("[request.bad_token_ids] wanted an array of arrays of token ids");
  std::vector<std::vector<std::int32_t>> out;
  for (const OrderedJson& one : value) out.push_back(read_ids(one, "bad_token_ids"));
  return out;
}

std::uint64_t read_seed(const OrderedJson& value) {
  if (!value.is_number_unsigned())
    refuse("[request.seed] {}: wanted a whole number, 0 to {}", dump_json(value),
           std::numeric_limits<std::uint64_t>::max());
  return value.get<std::uint64_t>();
}

EarlyStopping read_early_stopping(const OrderedJson& value) {
  if (value.is_boolean())
    return value.get<bool>() ? EarlyStopping::kTrue : EarlyStopping::kHeuristic;
  if (value != "never") refuse("[request.early_stopping] wanted true, false or \"never\"");
  return EarlyStopping::kNever;
}

// Some parameters have two names, which then have to say the same.
void read_counts(const OrderedJson& body, SamplingParams& p) {
  std::vector<const CountField*> given;
  for (const CountField& field : kCounts) {
    const OrderedJson* value = find(body, field.name);
    if (!value) continue;
    const std::int32_t count = read_count(*value, field.name, field.bounds);
    for (const CountField* other : given)
      if (other->to == field.to && p.*field.to != count)
        refuse("[request.{}] {}: {} says {}; wanted one of them", field.name, count, other->name,
               p.*field.to);
    p.*field.to = count;
    given.push_back(&field);
  }
}

// A completion's `logprobs` is the number of alternatives; a chat's says whether, and top_logprobs
// how many.
void read_logprobs(const OrderedJson& body, SamplingParams& p) {
  const OrderedJson* said = find(body, "logprobs");
  if (said && said->is_number())
    p.logprobs = read_count(*said, "logprobs", kAlternatives);
  else if (said && read_flag(*said, "logprobs"))
    p.logprobs = 0;
  const OrderedJson* top = find(body, "top_logprobs");
  if (!top) return;
  if (p.logprobs < 0) refuse("[request.top_logprobs] needs logprobs: true");
  const std::int32_t count = read_count(*top, "top_logprobs", kAlternatives);
  if (said && said->is_number() && p.logprobs != count)
    refuse("[request.top_logprobs] {}: logprobs says {}; wanted one of them", count, p.logprobs);
  p.logprobs = count;
}

// vLLM's use_beam_search makes the width of best_of or n.
void read_beams(const OrderedJson& body, SamplingParams& p) {
  if (const OrderedJson* value = find(body, "early_stopping"))
    p.early_stopping = read_early_stopping(*value);
  if (const OrderedJson* value = find(body, "use_beam_search")) {
    const bool use = read_flag(*value, "use_beam_search");
    if (!use && p.beam_width > 1)
      refuse("[request.use_beam_search] false: wanted true with beam_width {}", p.beam_width);
    if (use && !find(body, "beam_width")) p.beam_width = std::max(p.n, p.best_of);
    if (use && p.beam_width == 1)
      refuse("[request.use_beam_search] true: wanted beam_width, n or best_of above 1");
  }
  if (p.beam_width == 1) return;
  // The model's defaults are for draws, and a beam search draws nothing.
  const SamplingParams plain;
  for (const std::string_view name : {"temperature", "top_p", "min_p", "typical_p"})
    for (const NumberField& field : kNumbers)
      if (field.name == name && !find(body, name)) p.*field.to = plain.*field.to;
  if (!find(body, "top_k")) p.top_k = plain.top_k;
}

template <typename Fields>
bool names(const Fields& fields, std::string_view key) {
  return std::ranges::any_of(fields, [&](const auto& field) { return field.name == key; });
}

}  // namespace

bool is_sampling_field(std::string_view key) {
  return names(kNumbers, key) || names(kCounts, key) ||
         std::ranges::find(kOthers, key) != std::end(kOthers);
}

SamplingParams sampling_from_json(const OrderedJson& body, SamplingParams p) {
  for (const NumberField& field : kNumbers)
    if (const OrderedJson* value = find(body, field.name))
      p.*field.to = read_number(*value, field.name);
  read_counts(body, p);
  if (const OrderedJson* value = find(body, "ignore_eos"))
    p.ignore_eos = read_flag(*value, "ignore_eos");
  if (const OrderedJson* value = find(body, "include_stop_str_in_output"))
    p.include_stop_str = read_flag(*value, "include_stop_str_in_output");
  if (const OrderedJson* value = find(body, "stop")) p.stop = read_texts(*value, "stop");
  if (const OrderedJson* value = find(body, "stop_token_ids"))
    p.stop_token_ids = read_ids(*value, "stop_token_ids");
  if (const OrderedJson* value = find(body, "bad_words"))
    p.bad_words = read_texts(*value, "bad_words");
  if (const OrderedJson* value = find(body, "bad_token_ids"))
    p.bad_token_ids = read_sequences(*value);
  if (const OrderedJson* value = find(body, "logit_bias")) p.logit_bias = read_bias(*value);
  if (const OrderedJson* value = find(body, "seed")) p.seed = read_seed(*value);
  read_logprobs(body, p);
  read_beams(body, p);
  return p;
}

}  // namespace ingot
