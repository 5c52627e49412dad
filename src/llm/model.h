#pragma once

#include "base/json.h"
#include "base/result.h"
#include "builder/build_engine.h"
#include "device/device.h"
#include "llm/background_check.h"
#include "llm/open_options.h"
#include "plan/engine_file.h"
#include "plan/engine_info.h"
#include "plan/plan.h"
#include "runtime/check_sampling.h"
#include "runtime/engine_loop.h"
#include "runtime/executor.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// Sampling for checkpoints that say nothing of it (GGUF files never do): the raw distribution of a
// small model wanders, the largest logit repeats itself.
inline constexpr double kUnsaidTemperature = 0.7;
inline constexpr double kUnsaidTopP = 0.9;

// What no model takes among these values, starting with the field's name; "" when all is well.
std::string wrong_sampling(const SamplingParams& params);

// An engine on a device, ready to answer: the facade that commands and servers use.
class Model {
 public:
  // MODEL of the command line: folder, file, engine or hub name. Throws Error.
  static std::unique_ptr<Model> open(const std::string& model, const OpenOptions& options);
  ~Model();

  const EngineInfo& info() const { return info_; }
  const Plan& plan() const { return plan_; }
  const EngineFile& file() const { return *file_; }
  Device& device() { return *device_; }
  Executor& executor() { return *executor_; }
  EngineLoop& loop() { return *loop_; }
  double open_seconds() const { return open_seconds_; }
  // Tokens of the longest sequence: info().max_seq, or what the KV cache holds where that is less.
  std::int64_t context() const;

  // The weights are compared with their checksums while the model already answers; what was found
  // is thrown here (Error{kBadInput}), and by generate() and score(). Whoever vouches for results
  // calls wait() first.
  const BackgroundCheck& background_check() const { return *check_; }

  bool has_tokenizer() const { return tokenizer_.has_value(); }
  // Throws Error{kBadInput} when the checkpoint had none.
  const Tokenizer& tokenizer() const;
  // The template, parsed at first use. Throws Error{kBadInput}: none, or what is wrong with it and
  // where.
  const ChatTemplate& chat_template();

  // generation_config.json's values over Ingot's own; greedy where the file says do_sample: false.
  // kUnsaidTemperature and kUnsaidTopP where the checkpoint says nothing.
  SamplingParams default_sampling() const;
  // Ids of a plain prompt, with what the tokenizer puts before it.
  std::vector<std::int32_t> encode_prompt(std::string_view text) const;
  // Ids of a rendered chat: what users wrote never becomes a control token.
  std::vector<std::int32_t> encode_chat(const RenderedChat& chat) const;

  // One request with one answer to its end, for commands that show one text as it grows: what is
  // returned and what on_event joins are one answer, so n above 1 is Error{kRequest}; several are
  // loop()'s, or an Engine's. `on_event` sees every event, and one without tokens after each step
  // that only read the prompt; it may return false to cancel. Throws Error{kRequest} when the
  // request is refused. Returns the last event, with text and tokens of the whole answer.
  OutputEvent generate(Request request,
                       const std::function<bool(const OutputEvent&)>& on_event = {});

  // Logits of every token: sink gets [count, vocab] rows in order. The last `steps` tokens go one
  // at a time through the cache. Throws Error{kRequest} for ids outside the vocabulary or a text
  // longer than the context. It uses the KV pages itself, so no request may be running.
  void score(std::span<const std::int32_t> tokens, std::int64_t steps,
             const Executor::LogitSink& sink);

 private:
  Model() = default;
  void open_tokenizer();
  void open_draft(const OpenOptions& options);
  void open_executor(const std::string& name, const OpenOptions& options);

  std::shared_ptr<const EngineFile> file_;
  std::unique_ptr<BackgroundCheck> check_;
  std::unique_ptr<Device> device_;
  EngineInfo info_;
  Plan plan_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> chat_template_;
  std::unique_ptr<Model> draft_;
  std::unique_ptr<DraftModel> draft_model_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<EngineLoop> loop_;
  double open_seconds_ = 0;
};

// The cap where --memory names none: 19 of 20 parts of what is free, the rest is the system's.
std::uint64_t usable_memory(const DeviceInfo& device);

// Rows of the memory table: weights, activations, workspace, KV pool, and their sum.
std::vector<MemoryRow> memory_table(const Plan& plan, const Device& device, std::int64_t kv_pages);

// Pages of the KV pool for `sequences` of the longest length, those that windows see, cut to what
// is left under the cap beside everything else, `taken` bytes of others included.
struct PoolSize {
  std::int64_t pages = 0;       // 0: not even one fits
  std::int64_t host_pages = 0;  // of OpenOptions::host_memory
  std::uint64_t cap = 0;        // what the whole may take
  std::uint64_t fixed = 0;      // everything but the pool
  std::uint64_t others = 0;     // of it, what is not in the plan: taken, and host pages
  std::uint64_t host = 0;       // of others, host pages
};
// Throws Error{kDoesNotFit} when host_memory holds no page.
PoolSize size_pool(const Plan& plan, const EngineInfo& info, const Device& device,
                   const OpenOptions& options, std::uint64_t taken = 0);

}  // namespace ingot
