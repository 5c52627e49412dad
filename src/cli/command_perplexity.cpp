#include "base/error.h"
#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

constexpr std::int64_t kDefaultWindow = 2048;

struct PerplexityOptions {
  ModelOptions model;
  std::string file;
  std::optional<std::int64_t> window;
  std::optional<std::int64_t> stride;
  std::string compute;
  bool json = false;
};

// -log p(token), in nats.
double surprise(std::span<const float> logits, std::int32_t token) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - top);
  return std::log(sum) + top - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

struct Score {
  double sum = 0;
  std::int64_t tokens = 0;
};

// Every token after the first is counted once, in the first window that reaches it.
Score score_windows(Model& model, std::span<const std::int32_t> ids, std::int64_t window,
                    std::int64_t stride) {
  Progress progress;
  Score score;
  const auto count = static_cast<std::int64_t>(ids.size());
  const auto vocab = static_cast<std::size_t>(model.info().vocab);
  std::int64_t counted = 1;  // tokens before it are done
  for (std::int64_t begin = 0; counted < count; begin += stride) {
    const std::int64_t end = std::min(count, begin + window);
    const auto part =
        ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    model.score(part, 0, [&](std::int64_t first, std::int64_t rows, std::span<const float> logits) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t next = begin + first + r + 1;  // the token that this row predicts
        if (next < counted || next >= end) continue;
        score.sum += surprise(logits.subspan(static_cast<std::size_t>(r) * vocab, vocab),
                              ids[static_cast<std::size_t>(next)]);
        ++score.tokens;
      }
      progress.update(static_cast<double>(begin + first + rows) / static_cast<double>(count),
                      "scoring");
    });
    counted = end;
  }
  return score;
}

int perplexity(PerplexityOptions& o) {
  if (!o.compute.empty())
    o.model.mode = o.compute == "f32" ? ComputeMode::kF32 : ComputeMode::kNative;
  o.model.refuse_draft("perplexity");
  const std::string text = read_file(o.file);
  const auto model = open_model(o.model);
  const std::int64_t window = o.window.value_or(std::min(kDefaultWindow, model->context()));
  if (window < 2 || window > model->context())
    fail(ErrorCode::kUsage, "[usage] --window {}: wanted 2 to {}", window, model->context());
  const std::int64_t stride = o.stride.value_or(std::max<std::int64_t>(1, window / 2));
  if (stride < 1 || stride >= window)
    fail(ErrorCode::kUsage, "[usage] --stride {}: wanted 1 to {}", stride, window - 1);
  const auto ids = model->encode_prompt(text);
  if (ids.size() < 2)
    fail(ErrorCode::kRequest, "[perplexity] {}: {} tokens; at least 2 are needed", o.file,
         ids.size());
  const Score score = score_windows(*model, ids, window, stride);
  model->background_check().wait(throw_if_interrupted);
  const double mean = score.sum / static_cast<double>(score.tokens);
  if (o.json)
    print_json({{"perplexity", std::exp(mean)},
                {"mean_nll", mean},
                {"tokens", score.tokens},
                {"window", window},
                {"stride", stride}});
  else
    print(fmt::format("perplexity {:.4f} over {} tokens (window {}, stride {})\n", std::exp(mean),
                      score.tokens, window, stride));
  return 0;
}

}  // namespace

void declare_perplexity(Command& command) {
  auto o = std::make_shared<PerplexityOptions>();
  command.describe("Perplexity of a text. Windows overlap; each token counts once.",
                   "ingot perplexity smollm2.gguf book.txt --window 1024 --stride 512");
  o->model.declare(command);
  command.positional("FILE", o->file, "a text file");
  command.option("--window", o->window, {2, kMaxCount},
                 "tokens seen at once (default: 2048 or the context)");
  command.option("--stride", o->stride, {1, kMaxCount},
                 "tokens from window to window (default: half a window)");
  command.choice("--compute", o->compute, {"native", "f32"},
                 "arithmetic: the device's own (default), or float32");
  command.flag("--json", o->json, "one object: perplexity, mean_nll, tokens, window, stride");
  command.action([o] { return perplexity(*o); });
}

}  // namespace ingot::cli
