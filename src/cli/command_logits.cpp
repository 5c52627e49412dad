#include "base/error.h"
#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/npy_rows.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "llm/resolve.h"

#include <filesystem>

namespace ingot::cli {

namespace {

struct LogitsOptions {
  ModelOptions model;
  std::optional<std::string> tokens;
  std::optional<std::string> tokens_file;
  std::string compute;  // empty: native, or what the engine has
  std::int64_t steps = 0;
  std::string out;
};

int run_logits(LogitsOptions& o) {
  refuse_standard_output(o.out);
  if (o.tokens.has_value() == o.tokens_file.has_value())
    fail(ErrorCode::kUsage, "[usage] give either --tokens or --tokens-file");
  std::vector<std::filesystem::path> inputs = model_files(o.model.model);
  if (o.tokens_file) inputs.emplace_back(*o.tokens_file);
  refuse_over_input(o.out, inputs);
  const std::vector<std::int32_t> ids = o.tokens
                                            ? parse_ids(*o.tokens, "--tokens")
                                            : parse_ids(read_file(*o.tokens_file), *o.tokens_file);
  if (ids.empty()) fail(ErrorCode::kUsage, "[usage] no tokens");
  const auto count = static_cast<std::int64_t>(ids.size());
  if (o.steps >= count)
    fail(ErrorCode::kUsage, "[usage] --steps {}: wanted 0 to {}, the tokens less one", o.steps,
         count - 1);
  if (!o.compute.empty())
    o.model.mode = o.compute == "f32" ? ComputeMode::kF32 : ComputeMode::kNative;
  o.model.refuse_draft("logits");
  const auto model = open_model(o.model);

  Progress progress;
  NpyRows rows(o.out, count, model->info().vocab);
  model->score(
      ids, o.steps, [&](std::int64_t first, std::int64_t part, std::span<const float> logits) {
        rows.append(logits);
        progress.update(static_cast<double>(first + part) / static_cast<double>(count), "scoring");
      });
  model->background_check().wait(throw_if_interrupted);
  rows.commit();
  return 0;
}

}  // namespace

void declare_logits(Command& command) {
  auto o = std::make_shared<LogitsOptions>();
  command.describe("Writes the logits of every token as a NumPy file, float32 [tokens, vocab].",
                   "ingot logits smollm2.gguf --tokens 504,1296,768 --compute f32 -o logits.npy");
  o->model.declare(command);
  command.option("--tokens", o->tokens, "token ids: 1,2,3");
  command.option("--tokens-file", o->tokens_file, "file of ids, between commas or white space");
  command.choice("--compute", o->compute, {"native", "f32"},
                 "arithmetic: the device's own (default), or float32");
  command.option("--steps", o->steps, {0, kMaxCount},
                 "the last N tokens go one at a time through the KV cache");
  command.option("-o,--out", o->out, "the .npy file; row i predicts token i + 1", true);
  command.action([o] { return run_logits(*o); });
}

}  // namespace ingot::cli
