#include "base/check.h"
#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "llm/device_limits.h"
#include "llm/resolve.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

constexpr std::int64_t kDefaultBatch = 8;  // of an engine, see BuildOptions
constexpr std::int64_t kMaxRepeats = 1000000000;

struct BenchOptions {
  ModelOptions model;
  std::int64_t prefill = 512;
  std::int64_t decode = 64;
  std::int64_t batch = 1;
  std::optional<std::int64_t> context;
  std::int64_t repeat = 5;
  bool random_weights = false;
  bool json = false;
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Samples of everything, in seconds but for the limits.
struct Samples {
  std::vector<double> prefill, first_token, step;
  std::vector<double> read_bytes_per_s, operations_per_s;
};

class Bench {
 public:
  Bench(Model& model, const BenchOptions& o)
      : model_(model), o_(o), context_(o.context.value_or(o.prefill)) {
    work_ = step_work(model.plan());
    limits_ = make_device_limits(model.device(), o_.model.threads_here());
  }

  void run() {
    Progress progress;
    if (o_.prefill > 0) time_prefill();  // what happens once is not measured
    samples_ = {};
    for (std::int64_t r = 0; r < o_.repeat; ++r) {
      progress.update(static_cast<double>(r) / static_cast<double>(o_.repeat), "measuring");
      sample_limits();
      if (o_.prefill > 0) time_prefill();
      sample_limits();
      if (o_.decode > 0) time_decode();
    }
  }

  OrderedJson json() const;

 private:
  void sample_limits() {
    if (!limits_) return;
    samples_.read_bytes_per_s.push_back(limits_->read_bytes_per_s());
    samples_.operations_per_s.push_back(limits_->operations_per_s(work_));
  }
  std::vector<RequestId> submit(std::int64_t prompt_tokens, std::int64_t max_tokens);
  void time_prefill();
  void time_decode();
  double batch() const { return static_cast<double>(o_.batch); }
  OrderedJson limit(double seconds, double bytes, double operations) const;

  Model& model_;
  const BenchOptions& o_;
  std::int64_t context_;
  StepWork work_;
  std::unique_ptr<DeviceLimits> limits_;
  Samples samples_;
};

// Prompts differ, so that nothing can be shared between them.
std::vector<RequestId> Bench::submit(std::int64_t prompt_tokens, std::int64_t max_tokens) {
  std::vector<RequestId> ids;
  std::uint64_t state = 1;
  for (std::int64_t b = 0; b < o_.batch; ++b) {
    Request request;
    request.share_cache = false;  // every repetition reads its prompts
    for (std::int64_t i = 0; i < prompt_tokens; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      request.prompt.push_back(static_cast<std::int32_t>(
          (state >> 33) % static_cast<std::uint64_t>(model_.info().vocab)));
    }
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = static_cast<std::int32_t>(max_tokens);
    ids.push_back(model_.loop().submit(std::move(request)).value_or_throw());
  }
  return ids;
}

void throw_if_failed(const std::vector<OutputEvent>& events) {
  throw_if_interrupted();
  for (const OutputEvent& e : events)
    if (e.finish == FinishReason::kError) throw error_of(e);
}

void Bench::time_prefill() {
  const double begin = now();
  submit(o_.prefill, 1);
  double first = 0;
  while (model_.loop().has_work()) {
    const std::vector<OutputEvent> events = model_.loop().step();
    throw_if_failed(events);
    if (first == 0 && !events.empty()) first = now() - begin;
  }
  samples_.prefill.push_back(now() - begin);
  samples_.first_token.push_back(first);
}

// Steps in which every sequence decodes; those that read the prompts are not counted.
void Bench::time_decode() {
  const std::int64_t chunk = model_.plan().max[Symbol::kTokens];
  const std::int64_t reading = o_.batch * ((context_ + chunk - 1) / chunk + 1);
  const auto ids = submit(context_, o_.decode + reading + 2);
  std::int64_t started = 0, steps = 0;
  while (steps < o_.decode) {
    const double begin = now();
    const std::vector<OutputEvent> events = model_.loop().step();
    const double seconds = now() - begin;
    throw_if_failed(events);
    if (started == o_.batch) {
      if (static_cast<std::int64_t>(events.size()) != o_.batch)
        fail(ErrorCode::kDoesNotFit,
             "[bench] {} sequences of {} tokens and {} steps do not fit; lower --batch, --context "
             "or --decode, or raise --memory or --max-seq",
             o_.batch, context_, o_.decode);
      samples_.step.push_back(seconds);
      ++steps;
    }
    for (const OutputEvent& e : events)
      if (e.usage.completion_tokens == 1) ++started;
  }
  for (const RequestId id : ids) model_.loop().cancel(id);
  while (model_.loop().has_work()) model_.loop().step();
}

// The nearer of the two limits.
OrderedJson Bench::limit(double seconds, double bytes, double operations) const {
  if (!limits_ || seconds <= 0) return nullptr;
  const double read = median(samples_.read_bytes_per_s);
  const double compute = median(samples_.operations_per_s);
  const double of_read = read > 0 ? bytes / seconds / read : 0;
  const double of_compute = compute > 0 ? operations / seconds / compute : 0;
  if (of_read >= of_compute)
    return {
        {"bound", "memory"}, {"achieved", bytes / seconds}, {"peak", read}, {"fraction", of_read}};
  return {{"bound", "compute"},
          {"achieved", operations / seconds},
          {"peak", compute},
          {"fraction", of_compute}};
}

OrderedJson Bench::json() const {
  const double prefill = median(samples_.prefill), step = median(samples_.step);
  const double rows = batch() * work_.head_operations_a_row;
  const double prompt_tokens = batch() * static_cast<double>(o_.prefill);
  const double kv_token = static_cast<double>(memory_needs(model_.plan(), model_.device()).page) /
                          static_cast<double>(model_.plan().page_tokens);
  const double kv =
      kv_token * batch() * (static_cast<double>(context_) + static_cast<double>(o_.decode) / 2);
  const OrderedJson of_prefill =
      limit(prefill, work_.weight_bytes, prompt_tokens * work_.operations_a_token + rows);
  const OrderedJson of_decode =
      limit(step, work_.weight_bytes + kv, batch() * work_.operations_a_token + rows);
  OrderedJson json = {{"model", model_.info().name},
                      {"device", model_.device().info().description},
                      {"prefill", o_.prefill},
                      {"decode", o_.decode},
                      {"batch", o_.batch},
                      {"context", context_},
                      {"repeat", o_.repeat},
                      {"prefill_tokens_per_s", nullptr},
                      {"decode_tokens_per_s", nullptr},
                      {"first_token_s", nullptr},
                      {"step_ms", nullptr},
                      {"limit", o_.decode > 0 ? of_decode : of_prefill},
                      {"prefill_limit", of_prefill},
                      {"weight_bytes_per_step", work_.weight_bytes},
                      {"kv_bytes_per_step", kv}};
  if (o_.prefill > 0) {
    json["prefill_tokens_per_s"] = prompt_tokens / prefill;
    json["first_token_s"] = median(samples_.first_token);
  }
  if (o_.decode > 0) {
    json["decode_tokens_per_s"] = batch() / step;
    json["step_ms"] = step * 1e3;
  }
  return json;
}

std::string limit_text(const OrderedJson& limit) {
  if (!limit.is_object()) return "";
  const bool memory = limit.at("bound") == "memory";
  return fmt::format(" ({:.1f} of {:.1f} {}, {:.0f} %)", limit.at("achieved").get<double>() / 1e9,
                     limit.at("peak").get<double>() / 1e9, memory ? "GB/s read" : "Gop/s",
                     limit.at("fraction").get<double>() * 100);
}

std::string to_text(const OrderedJson& j) {
  std::string text = fmt::format("{} on {}\n", j.at("model").get<std::string>(),
                                 j.at("device").get<std::string>());
  if (!j.at("prefill_tokens_per_s").is_null())
    text +=
        fmt::format("  prefill {:5}  {:10.1f} tokens/s{}\n  first token   {:10.4f} s\n",
                    j.at("prefill").get<std::int64_t>(), j.at("prefill_tokens_per_s").get<double>(),
                    limit_text(j.at("prefill_limit")), j.at("first_token_s").get<double>());
  if (!j.at("decode_tokens_per_s").is_null())
    text +=
        fmt::format("  decode  {:5}  {:10.1f} tokens/s{}\n  step          {:10.3f} ms\n",
                    j.at("decode").get<std::int64_t>(), j.at("decode_tokens_per_s").get<double>(),
                    limit_text(j.at("limit")), j.at("step_ms").get<double>());
  return text;
}

// The first token of an answer comes with its prompt, so a decode of N steps needs N + 1 places.
void check_context(const BenchOptions& o, std::int64_t holds) {
  const std::int64_t context = o.context.value_or(o.prefill);
  if (o.prefill > holds - 1)
    fail(ErrorCode::kUsage,
         "[usage] --prefill {}: wanted at most {}, the context less one; --max-seq and --memory "
         "raise "
         "it",
         o.prefill, holds - 1);
  if (o.decode > 0 && (context > holds - 2 || o.decode > holds - 1 - context))
    fail(ErrorCode::kUsage,
         "[usage] --decode {} after {} tokens: the context holds {}; lower one of them, or raise "
         "--max-seq or --memory",
         o.decode, context, holds);
}

int bench(BenchOptions& o) {
  o.model.refuse_draft("bench");
  if (o.prefill == 0 && o.decode == 0) fail(ErrorCode::kUsage, "[usage] nothing to measure");
  if (o.decode > 0 && !o.context && o.prefill == 0)
    fail(ErrorCode::kUsage, "[usage] --prefill 0 needs --context");
  if (!o.model.max_batch && o.batch > kDefaultBatch && !is_engine(o.model.model))
    o.model.max_batch = o.batch;
  const auto model = open_model(o.model, o.batch, [&](OpenOptions& open) {
    make_weights_up(o.random_weights, o.model, open);
  });
  if (o.batch > model->info().max_batch)
    fail(ErrorCode::kUsage, "[usage] --batch {}: {} was built for {}", o.batch, o.model.model,
         model->info().max_batch);
  check_context(o, model->context());
  Bench run(*model, o);
  run.run();
  const OrderedJson json = run.json();
  if (o.json)
    print_json(json);
  else
    print(to_text(json));
  return 0;
}

}  // namespace

void declare_bench(Command& command) {
  Command offline = command.subcommand("offline");
  declare_bench_offline(offline);
  auto o = std::make_shared<BenchOptions>();
  command.describe(
      "Speed of prompts and of steps: medians, beside what the device can do at most, measured in\n"
      "between. With --random-weights MODEL is a config.json (or a folder with one) and --quant\n"
      "names the format its weights are made in: bf16, int8, int4, q8_0, q4_0, q4_1 ...",
      "ingot bench llama-1b/config.json --random-weights --quant q4_0 --prefill 512 --decode 64");
  o->model.declare(command);
  command.option("--prefill", o->prefill, {0, kMaxCount}, "tokens of a prompt; 0: not measured");
  command.option("--decode", o->decode, {0, kMaxCount}, "steps; 0: not measured");
  command.option("--batch", o->batch, {1, kMaxBatch}, "sequences at once");
  command.option("--context", o->context, {1, kMaxCount},
                 "tokens before the steps (default: --prefill)");
  command.option("--repeat", o->repeat, {1, kMaxRepeats}, "times everything is measured");
  command.flag("--random-weights", o->random_weights, "make the weights up");
  command.flag("--json", o->json,
               "one object: prefill_tokens_per_s, decode_tokens_per_s, first_token_s, step_ms, "
               "limit {bound, achieved, peak, fraction}");
  command.action([o] { return bench(*o); });
}

}  // namespace ingot::cli
