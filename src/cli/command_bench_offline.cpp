#include "base/check.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/loop_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "llm/resolve.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace ingot::cli {

namespace {

constexpr std::int32_t kStop = 0;  // the token that ends answers before their limit

struct OfflineOptions {
  ModelOptions model;
  LoopOptions loop;
  std::int64_t requests = 64;
  std::int64_t input = 512;
  std::int64_t output = 128;
  std::int64_t spread = 0;
  std::int64_t shared = 0;
  std::optional<std::int64_t> max_tokens;
  bool random_weights = false;
  bool json = false;
};

// The same numbers in every run.
class Numbers {
 public:
  std::int64_t below(std::int64_t n) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::int64_t>((state_ >> 33) % static_cast<std::uint64_t>(n));
  }
  // `mean` and at most so many percent more or less.
  std::int64_t around(std::int64_t mean, std::int64_t percent) {
    const std::int64_t reach = mean * percent / 100;
    return std::max<std::int64_t>(1, mean - reach + below(2 * reach + 1));
  }

 private:
  std::uint64_t state_ = 1;
};

struct OfflineRun {
  double seconds = 0;
  std::int64_t sequence_steps = 0;  // sequences of each step, summed
  EngineStatistics before, after;
};

// Prompts of random tokens; those that all have in common come first.
Request make_request(Numbers& numbers, const std::vector<std::int32_t>& common,
                     const OfflineOptions& o, std::int64_t vocab) {
  Request r;
  const std::int64_t input = std::max(o.shared + 1, numbers.around(o.input, o.spread));
  const std::int64_t output = numbers.around(o.output, o.spread);
  r.prompt = common;
  while (std::ssize(r.prompt) < input)
    r.prompt.push_back(static_cast<std::int32_t>(numbers.below(vocab)));
  r.share_cache = o.shared > 0;
  r.sampling.temperature = 0;
  r.sampling.ignore_eos = true;
  r.sampling.max_tokens = static_cast<std::int32_t>(o.max_tokens ? *o.max_tokens : output);
  if (!o.max_tokens) return r;
  // An end that nobody can foresee: the token before the last place is never the stop token, the
  // one there is.
  r.sampling.stop_token_ids = {kStop};
  r.change_logits = [end = r.prompt.size() + static_cast<std::size_t>(output) -
                           1](const LogitsView& view) {
    view.logits[kStop] = view.tokens.size() >= end ? 1e9f : -1e9f;
  };
  return r;
}

OfflineRun run(Model& model, const OfflineOptions& o) {
  Numbers numbers;
  std::vector<std::int32_t> common;
  for (std::int64_t i = 0; i < o.shared; ++i)
    common.push_back(static_cast<std::int32_t>(numbers.below(model.info().vocab)));
  CountedLoop counted(o.loop);
  EngineLoop& loop = model.loop();
  OfflineRun run{.before = loop.statistics()};
  Progress progress;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < o.requests; ++i)
    (void)loop.submit(make_request(numbers, common, o, model.info().vocab)).value_or_throw();
  std::int64_t ended = 0, step = 0;
  while (loop.has_work()) {
    throw_if_interrupted();
    for (const OutputEvent& event : counted.step(loop)) {
      if (event.finish == FinishReason::kError) throw error_of(event);
      ended += event.last;
    }
    if (loop.last_step().step != step) run.sequence_steps += loop.last_step().sequences;
    step = loop.last_step().step;
    progress.update(static_cast<double>(ended) / static_cast<double>(o.requests),
                    fmt::format("{} of {} answers", ended, o.requests));
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  run.after = loop.statistics();
  counted.close(loop);
  return run;
}

OrderedJson to_json(const Model& model, const OfflineOptions& o, const OfflineRun& r) {
  const auto since = [&](std::int64_t EngineStatistics::* field) {
    return r.after.*field - r.before.*field;
  };
  const std::int64_t output = since(&EngineStatistics::generated_tokens);
  const std::int64_t input = since(&EngineStatistics::prompt_tokens);
  const std::int64_t steps = since(&EngineStatistics::steps);
  const double sequences =
      steps > 0 ? static_cast<double>(r.sequence_steps) / static_cast<double>(steps) : 0;
  return {{"model", model.info().name},
          {"requests", o.requests},
          {"input_tokens", input},
          {"output_tokens", output},
          {"seconds", r.seconds},
          {"output_tokens_per_s", static_cast<double>(output) / r.seconds},
          {"total_tokens_per_s", static_cast<double>(input + output) / r.seconds},
          {"steps", steps},
          {"sequences_per_step", sequences},
          {"max_batch", model.info().max_batch},
          {"occupancy", sequences / static_cast<double>(model.info().max_batch)},
          {"policy", o.loop.policy},
          {"preemptions", since(&EngineStatistics::preemptions)},
          {"cached_tokens", since(&EngineStatistics::cached_tokens)},
          {"pages", r.after.pages},
          {"host_pages", r.after.host_pages},
          {"pages_to_host", since(&EngineStatistics::pages_to_host)}};
}

std::string to_text(const OrderedJson& j) {
  const auto number = [&](const char* key) { return j.at(key).get<double>(); };
  return fmt::format(
      "{}: {:.0f} requests in {:.2f} s, {:.0f} steps of {:.1f} sequences ({:.0f} % of {:.0f})\n"
      "  output  {:10.1f} tokens/s\n  total   {:10.1f} tokens/s\n  paused  {:8.0f} times\n",
      j.at("model").get<std::string>(), number("requests"), number("seconds"), number("steps"),
      number("sequences_per_step"), 100 * number("occupancy"), number("max_batch"),
      number("output_tokens_per_s"), number("total_tokens_per_s"), number("preemptions"));
}

void check_lengths(const OfflineOptions& o, std::int64_t holds) {
  const auto most = [&](std::int64_t mean) { return mean + mean * o.spread / 100; };
  const std::int64_t input = most(o.input);
  const std::int64_t output = o.max_tokens ? *o.max_tokens : most(o.output);
  if (o.max_tokens && *o.max_tokens < most(o.output))
    fail(ErrorCode::kUsage, "[usage] --max-tokens {}: answers may have {}", *o.max_tokens,
         most(o.output));
  if (input + output > holds)
    fail(ErrorCode::kUsage,
         "[usage] {} tokens of prompt and {} of answer: the context holds {}; lower one of them, "
         "or raise --max-seq or --memory",
         input, output, holds);
}

int bench_offline(OfflineOptions& o) {
  if (o.shared >= o.input)
    fail(
        ErrorCode::kUsage,
        "[usage] --shared {}: wanted less than --input {}, so that a prompt has a token of its own",
        o.shared, o.input);
  const OpenOptions asked = o.model.open_options();
  if (o.loop.stats) refuse_over_input(*o.loop.stats, model_files(o.model.model));
  const auto model = open_model(o.model, asked.build.max_batch, [&](OpenOptions& open) {
    o.loop.apply(open);
    make_weights_up(o.random_weights, o.model, open);
  });
  check_lengths(o, model->context());
  const OrderedJson json = to_json(*model, o, run(*model, o));
  model->background_check().throw_if_damaged();
  if (o.json)
    print_json(json);
  else
    print(to_text(json));
  return 0;
}

}  // namespace

void declare_bench_offline(Command& command) {
  auto o = std::make_shared<OfflineOptions>();
  command.describe(
      "Throughput of many requests that are there from the start: random prompts, answers of a\n"
      "given length. Nothing is shared between prompts unless --shared says so.",
      "ingot bench offline llama-1b/config.json --random-weights --quant int4 --requests 64 \\\n"
      "    --input 512 --output 128 --max-batch 32");
  o->model.declare(command);
  o->loop.declare(command);
  command.option("--requests", o->requests, {1, kMaxCount}, "requests, all at once");
  command.option("--input", o->input, {1, kMaxCount}, "tokens of a prompt");
  command.option("--output", o->output, {1, kMaxCount}, "tokens of an answer");
  command.option("--spread", o->spread, {0, 100}, "percent that lengths are more or less");
  command.option("--shared", o->shared, {0, kMaxCount},
                 "tokens that all prompts begin with, found in the KV cache; fewer than --input");
  command.option("--max-tokens", o->max_tokens, {1, kMaxCount},
                 "what a request asks for at most, while its answer ends where --output and\n"
                 "--spread say; the scheduler cannot know (default: the answer's length)");
  command.flag("--random-weights", o->random_weights, "make the weights up");
  command.flag("--json", o->json,
               "one object: output_tokens_per_s, total_tokens_per_s, steps, occupancy, "
               "preemptions ...");
  command.action([o] { return bench_offline(*o); });
}

}  // namespace ingot::cli
