// Questions answered together: one is streamed, one awaited, one told to a callback, one given up.
//   example_answers MODEL
#include "ingot/engine.h"

#include <cstdio>
#include <exception>
#include <future>
#include <utility>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: example_answers MODEL\n");
    return 2;
  }
  ingot::EngineOptions options;
  options.max_batch = 4;
  const auto engine = ingot::Engine::open(argv[1], options);

  ingot::Request question;
  question.prompt = engine->encode("Once upon a time");
  question.sampling = engine->default_sampling();
  question.sampling.max_tokens = 24;

  // Told to a callback, by a thread of the engine.
  std::promise<ingot::FinishReason> ended;
  const auto told = engine->submit(question, [&](const ingot::OutputEvent& event) {
    if (event.last) ended.set_value(event.finish);
  });

  // Streamed: events wait in the handle until they are read.
  auto stream = engine->submit(question);
  if (!stream || !told) {  // a refusal is an ordinary outcome, with its reason
    std::fprintf(stderr, "%s\n", (stream ? told.error() : stream.error()).what());
    return 1;
  }
  for (const ingot::OutputEvent& event : *stream) {
    std::printf("%s", event.text.c_str());
    if (event.last)
      std::printf("\n%s after %.3f s, first token %.3f s, seed %llu\n", to_string(event.finish),
                  event.statistics.total_seconds, event.statistics.first_token_seconds,
                  static_cast<unsigned long long>(event.seed));
  }

  // Awaited: two answers, before others that wait, and within a minute.
  question.sampling.n = 2;
  question.priority = 10;
  question.deadline = 60;
  for (const ingot::OutputEvent& answer : engine->submit(question).value_or_throw().await())
    std::printf("answer %d: %zu tokens, %lld of the prompt from the cache\n", answer.index,
                answer.tokens.size(), static_cast<long long>(answer.usage.cached_tokens));

  // Given up: a handle that goes before its request has ended cancels it.
  {
    const auto forgotten = engine->submit(question).value_or_throw();
    const ingot::RequestState state = engine->state(forgotten.id());
    std::printf("it %s\n",
                state.phase == ingot::Phase::kRunning ? "runs" : to_string(state.reason));
  }

  std::printf("the callback's ended by %s\n", to_string(ended.get_future().get()));
  engine->drain();
  const ingot::EngineStatistics s = engine->statistics();
  std::printf("%lld requests in %lld steps, all %lld pages free\n",
              static_cast<long long>(s.requests), static_cast<long long>(s.steps),
              static_cast<long long>(s.free_pages + s.kept_pages));
  return s.free_pages + s.kept_pages == s.pages ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
