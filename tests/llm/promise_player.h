#pragma once

#include "llm/model.h"

#include "tests/llm/promise_case.h"
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ingot::test {

// What the cases that were played really did.
struct PromiseCounts {
  std::int64_t cases = 0;
  std::int64_t answers = 0;       // compared, with
  std::int64_t tokens = 0;        // so many tokens
  std::int64_t several = 0;       // steps of several sequences
  std::int64_t in_chunks = 0;     // prompts that took several steps
  std::int64_t hits = 0;          // prompts that began in the cache
  std::int64_t answer_hits = 0;   // of these, within the answer of the turn before
  std::int64_t preemptions = 0;   // requests paused
  std::int64_t replayed = 0;      // tokens computed again after it, at least
  std::int64_t to_host = 0;       // pages
  std::int64_t from_host = 0;     // pages
  std::int64_t ngram_held = 0;    // guesses of prompt lookup that held
  std::int64_t ngram_failed = 0;  // and that did not
  std::int64_t model_held = 0;    // guesses of a model
  std::int64_t model_failed = 0;
  std::int64_t guided = 0;     // answers, those with an error apart
  std::int64_t searches = 0;   // answers found by beams
  std::int64_t refused = 0;    // beams beside guesses
  std::int64_t cancelled = 0;  // requests, compared as far as they came
  std::int64_t threaded = 0;   // cases with several threads
};
std::string to_string(const PromiseCounts& counts);

// A model, and how its KV cache is kept.
struct PromiseSubject {
  std::filesystem::path path;
  std::string quant = "none";
  ComputeMode mode = ComputeMode::kNative;
  std::string kv_cache = "auto";
  std::string guesser_kv_cache = "auto";  // of the model that guesses: itself, kept otherwise
  std::int64_t window = 0;                // tokens that every layer sees; 0: as the checkpoint says
  std::int64_t sink_tokens = 0;           // that are seen in spite of it
  std::int64_t max_seq = 512;
  std::vector<std::int32_t> text;  // that prompts are made of
};

// Plays a case twice, each request alone in a roomy cache that knows nothing, and all together
// under the case's conditions, and compares what each was given.
class PromisePlayer {
 public:
  // Adds what is played to `counts`, which may be of several players and outlives them.
  PromisePlayer(PromiseSubject subject, PromiseCounts& counts);
  ~PromisePlayer();

  // "" or what became of which request.
  std::string play(const PromiseCase& c);
  CaseLimits limits();

 private:
  class Stage;
  struct Part;
  struct Played;
  std::unique_ptr<Model> open(const std::string& kv_cache, ComputeMode mode, int threads,
                              std::int64_t sequences) const;
  Model& model(int threads);
  Model& guesser();
  Request request_of(const PromisedRequest& r, const Part* before) const;
  std::int64_t pages_for(std::span<const Part> parts, SchedulerLimits limits) const;
  static Played run(EngineLoop& loop, std::span<const Part> parts);
  const Part& alone(const PromisedRequest& r, const Part* before);
  Played run_together(Conditions c, std::span<const Part> parts);
  std::string compare(const Conditions& c, const Part& part, const Played& played, std::size_t i);
  void count(const Conditions& c, std::span<const Part> parts, const Played& played);

  PromiseSubject subject_;
  std::map<int, std::unique_ptr<Model>> models_;  // by threads
  std::unique_ptr<Model> guesser_;
  std::unique_ptr<Stage> alone_;
  std::map<std::string, Part> known_;  // alone, by what was asked
  PromiseCounts& counts_;
};

}  // namespace ingot::test
