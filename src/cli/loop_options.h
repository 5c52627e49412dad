#pragma once

#include "cli/command_line.h"
#include "llm/model.h"
#include "llm/open_options.h"
#include "llm/statistics_file.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ingot::cli {

// What a command takes that keeps an engine loop busy with many requests.
struct LoopOptions {
  std::string policy = "max-utilization";
  std::optional<std::string> host_memory;
  std::optional<std::string> stats;

  void declare(Command& command);
  // Throws Error{kUsage}.
  void apply(OpenOptions& open) const;
};

// Steps of a model's loop with their statistics, to a file where one was asked for.
class CountedLoop {
 public:
  // Throws Error{kSystem} when the file cannot be made.
  explicit CountedLoop(const LoopOptions& options);

  std::vector<OutputEvent> step(EngineLoop& loop);
  // Throws Error{kSystem} when something could not be written.
  void close(const EngineLoop& loop);

 private:
  std::unique_ptr<StatisticsFile> file_;
};

}  // namespace ingot::cli
