#pragma once

#include "cli/command_line.h"
#include "ingot/sampling_params.h"
#include "llm/model.h"
#include "llm/open_options.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot::cli {

inline constexpr std::int64_t kMaxThreads = 1024;
inline constexpr std::int64_t kMaxBatch = 4096;                   // as of BuildOptions
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 24;  // of tokens

// Standard output is for text: `-` as the name of a binary file is Error{kUsage}.
void refuse_standard_output(const std::string& out);

// What every command that opens a model takes.
struct ModelOptions {
  std::string model;
  std::string device = "auto";
  std::optional<std::int64_t> threads;
  std::optional<std::string> memory;
  std::optional<std::string> quant;
  std::optional<std::string> kv_cache;
  std::optional<std::int64_t> attention_window;
  std::optional<std::int64_t> sink_tokens;
  std::optional<std::int64_t> max_batch;
  std::optional<std::int64_t> max_seq;
  std::string deterministic = "on";
  std::string draft;
  std::vector<std::string> skip_passes;
  std::optional<ComputeMode> mode;  // where the command has --compute

  void declare(Command& command);
  // Checked; throws Error{kUsage}.
  OpenOptions open_options() const;
  // --threads, cut to the processors that there are; 0: not given.
  int threads_here() const;
  // Warns where they were cut.
  void tell_threads() const;
  // Throws Error{kUsage} where --draft is given to a command that draws no tokens.
  void refuse_draft(std::string_view command) const;
};

// Refuses a build setting that the engine contradicts with Error{kUsage}; of a checkpoint it tells
// on standard error which weights do not take --quant.
void check_settings(const ModelOptions& options, const EngineInfo& info, const Plan& plan);

// Opens with progress. A build setting that an engine contradicts is Error{kUsage}. `sequences`:
// see OpenOptions; `change` sees what will be opened.
std::unique_ptr<Model> open_model(const ModelOptions& options, std::int64_t sequences = 1,
                                  const std::function<void(OpenOptions&)>& change = {});

// For --random-weights: `open` makes weights up, in the format that --quant names.
void make_weights_up(bool random_weights, const ModelOptions& options, OpenOptions& open);

// Sampling flags; what is given overrides the model's defaults.
struct SamplingOptions {
  std::optional<double> temperature, top_p, top_p_decay, top_p_min, min_p, typical_p;
  std::optional<double> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<std::int64_t> top_k, top_p_reset_id, no_repeat_ngram_size, max_tokens, min_tokens;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> logit_bias;  // "ID:VALUE"
  std::vector<std::string> bad_words;
  std::vector<std::string> stop;
  bool include_stop_str = false;
  bool ignore_eos = false;

  void declare(Command& command);
  // Throws Error{kUsage} for a value that no model takes.
  void check() const;
  // A seed is always set, so that it can be told. Throws Error{kUsage}.
  SamplingParams over(SamplingParams defaults) const;
};

// "512M", "1.5GiB", "4096": bytes; units are powers of 1024. Throws Error{kUsage}.
std::uint64_t parse_size(std::string_view text, std::string_view option);
// Ids separated by white space or by one comma. Throws Error{kUsage} naming the first that is none.
std::vector<std::int32_t> parse_ids(std::string_view text, std::string_view where);

}  // namespace ingot::cli
