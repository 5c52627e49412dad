#include "cli/options.h"

#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"
#include "cli/progress.h"
#include "llm/resolve.h"
#include "plan/kv_reach.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

namespace ingot::cli {

namespace {

double finite(double value, const char* option) {
  if (!std::isfinite(value)) fail(ErrorCode::kUsage, "[usage] {}: not a finite number", option);
  return value;
}

std::pair<std::int32_t, double> parse_bias(std::string_view text) {
  std::pair<std::int32_t, double> bias{-1, 0};
  const char* const end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, bias.first);
  const bool has_value = id.ec == std::errc() && id.ptr != end && *id.ptr == ':';
  const auto value = std::from_chars(has_value ? id.ptr + 1 : end, end, bias.second);
  if (!has_value || bias.first < 0 || value.ec != std::errc() || value.ptr != end)
    fail(ErrorCode::kUsage,
         "[usage] --logit-bias {}: wanted a token id, a colon and a number, 42:-5", text);
  return bias;
}

// An engine keeps what it was built with.
void check_engine(const ModelOptions& o, const EngineInfo& info, const Plan& plan) {
  const auto refuse = [&](const char* option, const auto& wanted, const auto& built) {
    fail(ErrorCode::kUsage,
         "[usage] {} {}: {} was built with {}; leave the option out or build again", option, wanted,
         o.model, built);
  };
  if (o.max_batch && *o.max_batch != info.max_batch)
    refuse("--max-batch", *o.max_batch, info.max_batch);
  if (o.max_seq && *o.max_seq != info.max_seq) refuse("--max-seq", *o.max_seq, info.max_seq);
  if (o.quant) refuse("--quant", *o.quant, "its weights as they are");
  if (o.kv_cache) refuse("--kv-cache", *o.kv_cache, "a KV cache in " + kv_cache_name(plan));
  const KvReach reach = kv_reach(plan);
  if (o.attention_window && *o.attention_window != reach.window)
    refuse("--attention-window", *o.attention_window,
           reach.window > 0 ? fmt::format("a window of {}", reach.window)
                            : "layers that see all tokens");
  if (o.sink_tokens && *o.sink_tokens != reach.sink_tokens)
    refuse("--sink-tokens", *o.sink_tokens, fmt::format("{} sink tokens", reach.sink_tokens));
  if (!o.skip_passes.empty()) refuse("--skip-pass", o.skip_passes.front(), "its passes done");
  if (o.mode && *o.mode != plan.mode)
    refuse("--compute", *o.mode == ComputeMode::kF32 ? "f32" : "native",
           plan.mode == ComputeMode::kF32 ? "f32" : "native");
}

}  // namespace

void refuse_standard_output(const std::string& out) {
  if (out == "-")
    fail(ErrorCode::kUsage,
         "[usage] -o -: what is written is binary, and standard output is for text; give the name "
         "of a file");
}

void ModelOptions::declare(Command& c) {
  c.positional("MODEL", model, "folder, .gguf, .ingot or hub name org/name");
  c.option("--device", device, "auto, cpu, cuda or cuda:N (default: auto)");
  c.option("--threads", threads, {1, kMaxThreads},
           "CPU threads, at most the processors that this process may use (default: a thread for\n"
           "each of their cores)");
  c.option(
      "--memory", memory,
      "hard cap on everything, as 4G or 512M (default: what is free); where it holds no sequence\n"
      "of --max-seq a model does not start, and without that option it warns of a shorter context");
  c.option("--quant", quant,
           "weight format for float weights: none, int8, int4, fp8, q8_0, q4_0 ...");
  c.option("--kv-cache", kv_cache,
           "what the KV cache is kept in: auto, bf16, int8 or fp8 (default: auto, bf16)");
  c.option("--attention-window", attention_window, {1, kMaxCount},
           "tokens that every layer sees at most; what no layer sees any more takes no memory\n"
           "(default: the model's own windows)");
  c.option("--sink-tokens", sink_tokens, {0, kMaxCount},
           "first tokens that layers with a window see in spite of it (default: 0, none)");
  c.option("--max-batch", max_batch, {1, kMaxBatch}, "sequences of a step (default: 8)");
  c.option("--max-seq", max_seq, {1, kMaxCount},
           "longest sequence, prompt and answer (default: the model's, at most 8192)");
  c.choice(
      "--deterministic", deterministic, {"on", "strict", "off"},
      "same bits alone and in any batch; strict: also in a chat's next turn; off: speed first\n"
      "(nothing breaks the promise for speed yet: all three do what strict does)");
  c.option(
      "--draft", draft,
      fmt::format(
          "who guesses tokens ahead: ngram (what was there before) or a smaller MODEL of the same\n"
          "vocabulary; answers stay the same, and come sooner where guesses hold (default: "
          "nobody).\n"
          "Nobody guesses while more than {} requests run; beams (beam_width) are refused",
          kMostDrafting));
  c.option("--skip-pass", skip_passes, "leave a compiler pass out; may be repeated");
}

OpenOptions ModelOptions::open_options() const {
  OpenOptions o;
  o.device = device;
  o.threads = threads_here();
  o.build.workers = o.threads;
  if (memory) o.memory = parse_size(*memory, "--memory");
  if (quant) o.build.quant = *quant;
  if (kv_cache) o.build.kv_cache = *kv_cache;
  if (attention_window) o.build.attention_window = *attention_window;
  if (sink_tokens) o.build.sink_tokens = *sink_tokens;
  if (max_batch) o.build.max_batch = *max_batch;
  if (max_seq) o.build.max_seq = *max_seq;
  if (mode) o.build.mode = *mode;
  o.build.skip_passes = skip_passes;
  o.draft = draft;
  return o;
}

int ModelOptions::threads_here() const {
  return threads ? static_cast<int>(std::min<std::int64_t>(*threads, allowed_cpus())) : 0;
}

// Threads of a step wait for each other: more than run at once make it many times slower.
void ModelOptions::tell_threads() const {
  if (threads && threads_here() < *threads)
    log_warning("[threads] --threads {}: this process may use {} processors, and {} threads run",
                *threads, allowed_cpus(), threads_here());
}

void ModelOptions::refuse_draft(std::string_view command) const {
  if (!draft.empty())
    fail(ErrorCode::kUsage, "[usage] --draft: `ingot {}` draws no tokens that could be guessed",
         command);
}

void check_settings(const ModelOptions& options, const EngineInfo& info, const Plan& plan) {
  if (is_engine(options.model)) return check_engine(options, info, plan);
  if (!options.quant) return;
  const std::string kept = kept_formats(plan, *options.quant);
  if (!kept.empty()) std::fprintf(stderr, "note: %s\n", kept.c_str());
}

std::unique_ptr<Model> open_model(const ModelOptions& options, std::int64_t sequences,
                                  const std::function<void(OpenOptions&)>& change) {
  options.tell_threads();
  Progress progress;
  OpenOptions open = options.open_options();
  open.sequences = sequences;
  open.progress = [&](double part, const std::string& what) { progress.update(part, what); };
  if (change) change(open);
  auto model = Model::open(options.model, open);
  progress.finish();
  check_settings(options, model->info(), model->plan());
  return model;
}

void make_weights_up(bool random_weights, const ModelOptions& options, OpenOptions& open) {
  open.random_weights = random_weights;
  if (!random_weights || !options.quant) return;
  open.random_format = *options.quant;  // made in this format, not converted
  open.build.quant = "none";
}

void SamplingOptions::declare(Command& c) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const auto of_model = [](const std::string& help, const std::string& otherwise) {
    return fmt::format("{}\n(default: generation_config.json's, else {})", help, otherwise);
  };
  // What a model that has no such file, or nothing of sampling in it, is given instead.
  const auto unsaid = [](double silent) {
    return fmt::format("1; {} where nothing is said of sampling, as in a GGUF file", silent);
  };
  c.option("--max-tokens", max_tokens, {1, kMax}, "tokens of the answer (default: as many as fit)");
  c.option("--min-tokens", min_tokens, {0, kMax}, "no end before so many tokens (default: 0)");
  c.option("--temperature", temperature,
           of_model("0: always the likeliest token", unsaid(kUnsaidTemperature)));
  c.option("--top-k", top_k, {0, kMax}, of_model("draw from the K likeliest; 0: all", "0"));
  c.option("--top-p", top_p,
           of_model("smallest set whose probabilities reach P", unsaid(kUnsaidTopP)));
  c.option("--top-p-decay", top_p_decay,
           "each token multiplies --top-p by it, down to --top-p-min (default: 1)");
  c.option("--top-p-min", top_p_min, "where the decay ends (default: 0.000001)");
  c.option("--top-p-reset-id", top_p_reset_id, {0, kMax},
           "after this token --top-p starts again (default: none)");
  c.option("--min-p", min_p, of_model("drop what is less likely than P times the likeliest", "0"));
  c.option("--typical-p", typical_p,
           "smallest set of tokens as surprising as expected that reaches P (default: 1)");
  c.option("--repetition-penalty", repetition_penalty,
           of_model("above 1: tokens seen become unlikelier", "1"));
  c.option("--presence-penalty", presence_penalty,
           "subtracted once from tokens of the answer (default: 0)");
  c.option("--frequency-penalty", frequency_penalty,
           "subtracted for each time of a token (default: 0)");
  c.option("--no-repeat-ngram-size", no_repeat_ngram_size, {kNgramSizes.low, kNgramSizes.high},
           "no N tokens come twice in the same order, prompt included (default: 0, off)");
  c.option("--logit-bias", logit_bias, "ID:VALUE, added to a token's logit; may be repeated");
  c.option("--bad-words", bad_words,
           "a word or text whose tokens the answer may not have in this order, with or without a\n"
           "blank before them; give the option once for each");
  c.option("--seed", seed, "same seed, same answer (default: random)");
  c.option("--stop", stop, "text that ends the answer; may be repeated");
  c.flag("--include-stop-str", include_stop_str, "the text that ended the answer is part of it");
  c.flag("--ignore-eos", ignore_eos, "go on after the end token");
}

SamplingParams SamplingOptions::over(SamplingParams p) const {
  const auto count = [](const std::optional<std::int64_t>& value, std::int32_t& to) {
    if (value) to = static_cast<std::int32_t>(*value);
  };
  const auto number = [](const std::optional<double>& value, const char* option, double& to) {
    if (value) to = finite(*value, option);
  };
  number(temperature, "--temperature", p.temperature);
  number(top_p, "--top-p", p.top_p);
  number(top_p_decay, "--top-p-decay", p.top_p_decay);
  number(top_p_min, "--top-p-min", p.top_p_min);
  number(min_p, "--min-p", p.min_p);
  number(typical_p, "--typical-p", p.typical_p);
  number(repetition_penalty, "--repetition-penalty", p.repetition_penalty);
  number(presence_penalty, "--presence-penalty", p.presence_penalty);
  number(frequency_penalty, "--frequency-penalty", p.frequency_penalty);
  count(top_k, p.top_k);
  count(top_p_reset_id, p.top_p_reset_id);
  count(no_repeat_ngram_size, p.no_repeat_ngram_size);
  count(max_tokens, p.max_tokens);
  count(min_tokens, p.min_tokens);
  p.seed = seed ? *seed : (std::uint64_t{std::random_device{}()} << 21) ^ std::random_device{}();
  for (const std::string& text : logit_bias) {
    const auto [id, value] = parse_bias(text);
    p.logit_bias[id] = value;
  }
  p.bad_words = bad_words;
  p.stop = stop;
  p.include_stop_str = include_stop_str;
  p.ignore_eos = ignore_eos;
  return p;
}

void SamplingOptions::check() const {
  std::string wrong = wrong_sampling(over({}));
  if (wrong.empty()) return;
  const std::size_t name = std::min(wrong.find_first_of(" :"), wrong.size());
  std::replace(wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(name), '_', '-');
  constexpr std::string_view kLimit = " max_tokens";  // what another option is held against
  if (const std::size_t limit = wrong.find(kLimit); limit != wrong.npos)
    wrong.replace(limit, kLimit.size(), " --max-tokens");
  fail(ErrorCode::kUsage, "[usage] --{}", wrong);
}

std::uint64_t parse_size(std::string_view text, std::string_view option) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit.ends_with("ib")) unit.resize(unit.size() - 2);
  if (unit.size() == 2 && unit.ends_with("b")) unit.resize(1);
  constexpr std::string_view kUnits = "bkmgt";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit);
  constexpr double kLargest = 1e18;
  const double bytes = power > 4 ? -1 : value * std::pow(1024.0, static_cast<double>(power));
  if (error != std::errc() || unit.size() > 1 || !(bytes >= 1) || bytes > kLargest)
    fail(ErrorCode::kUsage, "[usage] {} {}: wanted bytes, such as 4G, 512M or 1073741824", option,
         text);
  return static_cast<std::uint64_t>(bytes);
}

std::vector<std::int32_t> parse_ids(std::string_view text, std::string_view where) {
  constexpr std::string_view kSpace = " \t\r\n", kBetween = ", \t\r\n";
  std::vector<std::int32_t> ids;
  std::size_t at = std::min(text.find_first_not_of(kSpace), text.size());
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    std::int32_t id = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0)
      fail(ErrorCode::kUsage, "[usage] {}: `{}` is no token id", where, word.substr(0, 40));
    ids.push_back(id);
    at = std::min(text.find_first_not_of(kSpace, end), text.size());
    if (at == text.size() || text[at] != ',') continue;
    at = std::min(text.find_first_not_of(kSpace, at + 1), text.size());
    if (at == text.size())
      fail(ErrorCode::kUsage, "[usage] {}: no token id behind the last comma", where);
  }
  return ids;
}

}  // namespace ingot::cli
