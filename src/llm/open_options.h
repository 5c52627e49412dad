#pragma once

#include "builder/build_engine.h"
#include "ingot/scheduling.h"

#include <cstdint>
#include <functional>
#include <string>

namespace ingot {

// How a model is opened, wherever it comes from. Engines keep what they were built with; a build
// setting that an engine contradicts is refused, never ignored.
struct OpenOptions {
  std::string device = "auto";
  int threads = 0;  // 0: what the machine gives
  // On the CPU: all memory is there when open() returns, not at the first touch. Off for a single
  // answer.
  bool memory_present = true;
  std::uint64_t memory = 0;  // hard cap on everything, bytes; 0: what is free
  // KV pool for so many sequences of max_seq at once, as far as it fits. Where not even one does, a
  // max_seq that was asked for is refused, and any other becomes a shorter context with a warning.
  std::int64_t sequences = 1;
  // Pages of all tokens, whatever a window sees: a draft model takes its tokens back.
  bool keeps_all_pages = false;
  // Who guesses tokens ahead: "" nobody, "ngram" what was there before, or a smaller model of the
  // same vocabulary. Answers stay the same, their time does not.
  std::string draft;
  // Bytes of host memory for pages that do not fit the pool. On the CPU they count under the cap.
  std::uint64_t host_memory = 0;
  SchedulerPolicy policy = SchedulerPolicy::kMaxUtilization;
  BuildOptions build;
  // MODEL is a config.json, or a folder with one, whose weights are made up in random_format.
  bool random_weights = false;
  std::string random_format = "bf16";
  // Part done of what takes long (fetching, building, copying to a GPU) and what it is.
  std::function<void(double, const std::string&)> progress;
};

}  // namespace ingot
