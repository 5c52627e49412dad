#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

// When a beam search ends, once it holds `beam_width` ended hypotheses (transformers' words: false,
// true, "never").
enum class EarlyStopping : std::uint8_t {
  kHeuristic,  // false: when no beam would get better if it ended now
  kTrue,       // at once
  kNever,      // when no beam can get better, however long it grows
};

// How the tokens of an answer are chosen. Values out of range and fields that contradict each other
// are refused by the field's name; runtime/sampler.h has the order in which the fields act. What is
// absent changes nothing.
struct SamplingParams {
  // 0 to 1,000,000. Divides the logits; below 1e-5 the largest logit is taken, the lowest id where
  // two are equal.
  double temperature = 1.0;
  std::int32_t top_k = 0;  // draw from so many likeliest; 0: all
  double top_p = 1.0;      // (0, 1]: smallest set of likeliest whose probabilities reach it
  // top_p falls with each generated token, as top_p * top_p_decay, down to top_p_min, and starts
  // again after the token top_p_reset_id (https://arxiv.org/abs/2206.04624).
  double top_p_decay = 1.0;  // (0, 1]; 1: stays
  double top_p_min = 1e-6;   // (0, 1], and at most top_p where that decays
  std::int32_t top_p_reset_id = -1;
  double min_p = 0.0;  // [0, 1]: drop what is less likely than min_p times the likeliest
  // (0, 1]: smallest set, reaching this probability, of those whose surprise is nearest to the
  // expected (https://arxiv.org/abs/2202.00666); 1: all.
  double typical_p = 1.0;

  // 0.000001 to 1,000,000: divides positive and multiplies negative logits of tokens in prompt and
  // answer.
  double repetition_penalty = 1.0;
  double presence_penalty = 0.0;   // -100 to 100: subtracted once from tokens of the answer
  double frequency_penalty = 0.0;  // -100 to 100: subtracted for each time a token is in the answer
  // 0 (off) to 256: no so many tokens stand in the same order twice, the prompt included.
  std::int32_t no_repeat_ngram_size = 0;
  std::map<std::int32_t, double> logit_bias;  // token id to what is added, -100 to 100
  // What may not come. A text stands for its tokens, with and without a blank before it; of a
  // sequence of ids its last is never drawn after the others. At most 1,024 of both together, of up
  // to 256 bytes or ids each.
  std::vector<std::string> bad_words;
  std::vector<std::vector<std::int32_t>> bad_token_ids;

  // Random when absent, and told with the answer. A draw depends on the seed and the position only.
  std::optional<std::uint64_t> seed;

  std::int32_t max_tokens = 0;  // of the answer; 0: as many as fit
  std::int32_t min_tokens = 0;  // no end before so many
  bool ignore_eos = false;
  // Texts that end the answer. At most 1,024, of 65,536 bytes together.
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;  // besides the model's own
  bool include_stop_str = false;             // the text that ended the answer is part of it

  std::int32_t n = 1;        // answers, 1 to 128
  std::int32_t best_of = 0;  // draw so many, give the n likeliest; 0: n, else n to 128
  // Likeliest tokens reported at each position, from the raw softmax: 0 to the vocabulary's size;
  // -1: not even the position's own.
  std::int32_t logprobs = -1;
  // Likewise, of the prompt. At most 1,048,576 for all its tokens together, since they are told at
  // once; so are logprobs of answers that are compared (best_of, beams).
  std::int32_t prompt_logprobs = -1;

  // 1 to 128; above 1 answers come from a beam search, which draws nothing: temperature is 0 or 1
  // then, the fields of draws have no place, and n of the beams are given, best first.
  std::int32_t beam_width = 1;
  // -10 to 10: a hypothesis of L tokens scores its log-probability / L^length_penalty.
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::kHeuristic;
  // 0 to 1,000,000: added to a beam's score at every step, times its rank from 0.
  double beam_search_diversity_rate = 0.0;
};

}  // namespace ingot
