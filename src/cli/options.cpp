#include "cli/options.h"

#include "base/error.h"
#include "cli/progress.h"
#include "llm/resolve.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

namespace ingot::cli {

namespace {

constexpr std::int64_t kMaxCount = std::int64_t{1} << 24;

double finite(double value, const char* option) {
  if (!std::isfinite(value)) fail(ErrorCode::kUsage, "[usage] {}: not a finite number", option);
  return value;
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
  if (o.kv_cache) refuse("--kv-cache", *o.kv_cache, "its KV cache as it is");
  if (!o.skip_passes.empty()) refuse("--skip-pass", o.skip_passes.front(), "its passes done");
  if (o.mode && *o.mode != plan.mode)
    refuse("--compute", *o.mode == ComputeMode::kF32 ? "f32" : "native",
           plan.mode == ComputeMode::kF32 ? "f32" : "native");
}

}  // namespace

std::int64_t in_range(std::int64_t value, std::int64_t low, std::int64_t high, const char* option) {
  if (value < low || value > high)
    fail(ErrorCode::kUsage, "[usage] {} {}: wanted {} to {}", option, value, low, high);
  return value;
}

void ModelOptions::declare(Command& c) {
  c.positional("MODEL", model, "folder, .gguf, .ingot or hub name org/name");
  c.option("--device", device, "auto, cpu, cuda or cuda:N (default: auto)");
  c.option("--threads", threads, "CPU threads (default: all this process may use)");
  c.option("--memory", memory, "hard cap on everything, as 4G or 512M (default: what is free)");
  c.option("--quant", quant,
           "weight format for float weights: none, int8, int4, fp8, q8_0, q4_0 ...");
  c.option("--kv-cache", kv_cache, "auto, bf16, int8 or fp8");
  c.option("--max-batch", max_batch, "sequences of a step (default: 8)");
  c.option("--max-seq", max_seq, "longest sequence, prompt and answer (default: the model's)");
  c.choice(
      "--deterministic", deterministic, {"on", "strict", "off"},
      "same bits alone and in any batch; strict: also in a chat's next turn; off: speed first\n"
      "(nothing breaks the promise for speed yet: all three do what strict does)");
  c.option("--skip-pass", skip_passes, "leave a compiler pass out; may be repeated");
}

OpenOptions ModelOptions::open_options() const {
  OpenOptions o;
  o.device = device;
  if (threads) o.threads = static_cast<int>(in_range(*threads, 1, kMaxThreads, "--threads"));
  o.build.workers = o.threads;
  if (memory) o.memory = parse_size(*memory, "--memory");
  if (quant) o.build.quant = *quant;
  if (kv_cache) o.build.kv_cache = *kv_cache;
  if (max_batch) o.build.max_batch = in_range(*max_batch, 1, kMaxCount, "--max-batch");
  if (max_seq) o.build.max_seq = in_range(*max_seq, 1, kMaxCount, "--max-seq");
  if (mode) o.build.mode = *mode;
  o.build.skip_passes = skip_passes;
  return o;
}

void check_settings(const ModelOptions& options, const EngineInfo& info, const Plan& plan) {
  if (is_engine(options.model)) return check_engine(options, info, plan);
  if (!options.quant) return;
  const std::string kept = kept_formats(plan, *options.quant);
  if (!kept.empty()) std::fprintf(stderr, "note: %s\n", kept.c_str());
}

std::unique_ptr<Model> open_model(const ModelOptions& options, std::int64_t sequences,
                                  const std::function<void(OpenOptions&)>& change) {
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

void SamplingOptions::declare(Command& c) {
  c.option("--max-tokens", max_tokens, "tokens of the answer (default: as many as fit)");
  c.option("--min-tokens", min_tokens, "no end before so many tokens");
  c.option("--temperature", temperature, "0: always the likeliest token");
  c.option("--top-k", top_k, "draw from the K likeliest; 0: all");
  c.option("--top-p", top_p, "smallest set whose probabilities reach P");
  c.option("--min-p", min_p, "drop what is less likely than P times the likeliest");
  c.option("--repetition-penalty", repetition_penalty, "above 1: tokens seen become unlikelier");
  c.option("--presence-penalty", presence_penalty, "subtracted once from tokens of the answer");
  c.option("--frequency-penalty", frequency_penalty, "subtracted for each time of a token");
  c.option("--seed", seed, "same seed, same answer (default: random)");
  c.option("--stop", stop, "text that ends the answer; may be repeated");
  c.flag("--ignore-eos", ignore_eos, "go on after the end token");
}

SamplingParams SamplingOptions::over(SamplingParams p) const {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const auto count = [](const std::optional<std::int64_t>& value, std::int64_t low,
                        const char* option, auto& to) {
    if (value) to = static_cast<std::int32_t>(in_range(*value, low, kMax, option));
  };
  const auto number = [](const std::optional<double>& value, const char* option, double& to) {
    if (value) to = finite(*value, option);
  };
  number(temperature, "--temperature", p.temperature);
  number(top_p, "--top-p", p.top_p);
  number(min_p, "--min-p", p.min_p);
  number(repetition_penalty, "--repetition-penalty", p.repetition_penalty);
  number(presence_penalty, "--presence-penalty", p.presence_penalty);
  number(frequency_penalty, "--frequency-penalty", p.frequency_penalty);
  count(top_k, 0, "--top-k", p.top_k);
  count(max_tokens, 1, "--max-tokens", p.max_tokens);
  count(min_tokens, 0, "--min-tokens", p.min_tokens);
  p.seed = seed ? *seed : (std::uint64_t{std::random_device{}()} << 21) ^ std::random_device{}();
  p.stop = stop;
  p.ignore_eos = ignore_eos;
  return p;
}

void SamplingOptions::check() const {
  std::string wrong = wrong_sampling(over({}));
  if (wrong.empty()) return;
  const std::size_t name = std::min(wrong.find_first_of(" :"), wrong.size());
  std::replace(wrong.begin(), wrong.begin() + static_cast<std::ptrdiff_t>(name), '_', '-');
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
  constexpr std::string_view kBetween = ", \t\r\n";
  std::vector<std::int32_t> ids;
  for (std::size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    std::int32_t id = -1;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size() || id < 0)
      fail(ErrorCode::kUsage, "[usage] {}: `{}` is no token id", where, word.substr(0, 40));
    ids.push_back(id);
    at = text.find_first_not_of(kBetween, end);
  }
  return ids;
}

}  // namespace ingot::cli
