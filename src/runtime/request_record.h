#pragma once

#include "grammar/compiler.h"
#include "grammar/matcher.h"
#include "ingot/request.h"
#include "runtime/answer_text.h"
#include "runtime/beam_record.h"
#include "runtime/ngram_drafter.h"
#include "runtime/sampling_state.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

// What an answer needs besides its tokens and pages.
struct AnswerRecord {
  AnswerRecord(AnswerText own_text, const SamplingState& own_state)
      : text(std::move(own_text)), state(own_state) {}

  AnswerText text;
  SamplingState state;
  std::optional<NgramDrafter> drafter;
  std::optional<GrammarMatcher> matcher;  // after the answer's tokens
  // [rows, words] of the step under way: what may follow the last token, and each guess that may
  // come.
  std::vector<std::uint32_t> masks;
  bool ended = false;          // its last event is out
  double last_token = -1;      // when it was drawn
  double sum_of_logprobs = 0;  // of its tokens, where best_of compares answers
  OutputEvent whole;           // held back until all answers are compared
};

// A request from its submission to its last event.
struct RequestRecord {
  RequestId id = 0;
  SamplingParams sampling;
  std::size_t prompt_tokens = 0;
  std::size_t limit = 0;              // most tokens of an answer, its prompt included
  std::vector<std::int32_t> end_ids;  // any of them ends an answer
  std::uint64_t seed = 0;
  LogitsCallback change_logits;
  std::vector<TokenLogprob> prompt_logprobs;
  std::vector<std::unique_ptr<AnswerRecord>> answers;
  PendingGrammar pending_grammar;  // until it is ready
  CompiledGrammarPtr grammar;      // null: anything may come
  // Whose masks take too long for the step under way: nothing is drawn, the request is held until
  // they are made.
  std::optional<GrammarMatcher> unmasked;
  PendingMasks pending_masks;
  double mask_seconds = 0;    // of processors, that making them took so far
  double follow_seconds = 0;  // that following its grammar took in the step it last took part in
  bool is_dear = false;       // that was long once: it is one of EngineLoop::dear_
  std::unique_ptr<BeamRecord> beams;  // the answers come from a search, at its end
  std::int32_t open = 0;              // answers that have not ended
  bool compares = false;              // best_of: nothing is told before all have ended
  bool told_prompt = false;           // prompt_logprobs went out
  std::int64_t cached_tokens = 0;
  std::int64_t drafted_tokens = 0;
  std::int64_t accepted_drafts = 0;
  double submitted = 0;  // seconds, on the loop's clock
  double started = -1;
  double first_token = -1;
  double deadline = 0;         // 0: none
  std::int64_t generated = 0;  // tokens of all answers
  std::int64_t gaps = 0;       // between tokens of one answer
  double gap_sum = 0;          // seconds
  double gap_max = 0;
  std::int64_t preemptions = 0;  // these two are set when the scheduler lets it go
  std::int64_t pages = 0;
};

}  // namespace ingot
