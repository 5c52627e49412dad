// gpu_prompts MODEL.gguf GREEDY.json [DEVICE]
// The engine of MODEL on DEVICE (cuda:0) against the CPU and against frozen greedy text:
//   f32     greedy text token by token; logits close to the CPU's
//   native  KL against f32 below 0.01 in the mean; the same bits at once and through the cache
// A line a prompt and check; the last line is "N passed, N failed".
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "llm/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace {

using namespace ingot;
using Tokens = std::vector<std::int32_t>;

constexpr std::int64_t kDecoded = 16;  // tokens that go one at a time through the KV cache
constexpr double kMaxKl = 0.01;
constexpr double kMaxLogitError = 2e-3;  // f32 against f32 in another order, logits of about 10

std::unique_ptr<Model> open_model(const std::string& file, const std::string& device,
                                  ComputeMode mode) {
  OpenOptions options;
  options.device = device;
  options.sequences = 10;
  options.build.mode = mode;
  options.build.max_batch = 10;
  options.build.max_seq = 1024;
  return Model::open(file, options);
}

// [tokens, vocab], row after row.
std::vector<float> score(Model& model, const Tokens& tokens, std::int64_t steps) {
  std::vector<float> all;
  model.score(tokens, steps, [&](std::int64_t, std::int64_t, std::span<const float> rows) {
    all.insert(all.end(), rows.begin(), rows.end());
  });
  return all;
}

double log_sum_exp(std::span<const float> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float x : row) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

// Mean over rows of KL(exact || other).
double mean_kl(std::span<const float> exact, std::span<const float> other, std::size_t vocab) {
  double total = 0;
  const std::size_t rows = exact.size() / vocab;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto p = exact.subspan(r * vocab, vocab);
    const auto q = other.subspan(r * vocab, vocab);
    const double p_base = log_sum_exp(p);
    const double q_base = log_sum_exp(q);
    for (std::size_t i = 0; i < vocab; ++i)
      total += std::exp(p[i] - p_base) * ((p[i] - p_base) - (q[i] - q_base));
  }
  return total / static_cast<double>(rows);
}

double largest_difference(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN counts
  }
  return largest;
}

struct Tally {
  int passed = 0;
  int failed = 0;
  void record(bool good, const std::string& line) {
    (good ? passed : failed)++;
    fmt::print("{} {}\n", good ? "ok    " : "FAILED", line);
    std::fflush(stdout);
  }
};

struct Models {
  std::unique_ptr<Model> cpu;
  std::unique_ptr<Model> exact;
  std::unique_ptr<Model> native;
};

void check_prompt(Models& models, const Json& prompt, Tally& tally) {
  const auto name = prompt.at("name").get<std::string>();
  const auto ids = prompt.at("prompt").get<Tokens>();
  const auto greedy = prompt.at("greedy").get<Tokens>();
  const OutputEvent answer =
      models.exact->generate({.prompt = ids,
                              .sampling = {.temperature = 0,
                                           .max_tokens = static_cast<std::int32_t>(greedy.size()),
                                           .ignore_eos = true}});
  const auto same =
      std::mismatch(greedy.begin(), greedy.end(), answer.tokens.begin(), answer.tokens.end());
  tally.record(answer.tokens == greedy, fmt::format("{:<12} f32: {} of {} greedy tokens", name,
                                                    same.first - greedy.begin(), greedy.size()));
  Tokens tokens = ids;
  tokens.insert(tokens.end(), greedy.begin(), greedy.end());
  const auto vocab = static_cast<std::size_t>(models.exact->info().vocab);
  const auto exact = score(*models.exact, tokens, kDecoded);
  const auto native = score(*models.native, tokens, kDecoded);
  const double error = largest_difference(exact, score(*models.cpu, tokens, 0));
  tally.record(error < kMaxLogitError,
               fmt::format("{:<12} f32: logits within {:.2e} of the CPU's", name, error));
  const double kl = mean_kl(exact, native, vocab);
  tally.record(kl < kMaxKl, fmt::format("{:<12} native: KL {:.5f} against f32", name, kl));
  tally.record(native == score(*models.native, tokens, 0),
               fmt::format("{:<12} native: the same bits at once and through the cache", name));
}

int check_all(const std::string& file, const std::string& prompts, const std::string& device) {
  Tally tally;
  const auto begin = std::chrono::steady_clock::now();
  Models models{.cpu = open_model(file, "cpu", ComputeMode::kF32),
                .exact = open_model(file, device, ComputeMode::kF32),
                .native = open_model(file, device, ComputeMode::kNative)};
  const std::chrono::duration<double> opened = std::chrono::steady_clock::now() - begin;
  fmt::print("{}: opened thrice in {:.1f} s\n", models.native->device().info().description,
             opened.count());
  for (const Json& prompt : parse_json(read_file(prompts), prompts))
    check_prompt(models, prompt, tally);
  fmt::print("{} passed, {} failed\n", tally.passed, tally.failed);
  return tally.failed > 0 || tally.passed == 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: gpu_prompts MODEL.gguf GREEDY.json [DEVICE]\n");
    return 2;
  }
  try {
    return check_all(argv[1], argv[2], argc > 3 ? argv[3] : "cuda:0");
  } catch (const Error& e) {
    fmt::print("{}\n0 passed, 1 failed\n", e.message());
    return ingot::describe(e.code()).exit_code;
  }
}
