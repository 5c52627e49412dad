#pragma once

#include "ingot/request.h"
#include "ingot/statistics.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace ingot {

// Statistics as lines of JSON: {"type": "step", ...} for every step, "request" for every request
// that ended, "summary" at the end; the fields are those of ingot/statistics.h, and "time" is in
// seconds since the file was opened. Lines are gathered and written about once a second, so that it
// costs next to nothing. One thread.
class StatisticsFile {
 public:
  // Replaces what is there. Throws Error{kSystem}.
  explicit StatisticsFile(std::filesystem::path path);
  // Writes what is left, and tells nobody when that fails.
  ~StatisticsFile();
  StatisticsFile(const StatisticsFile&) = delete;
  StatisticsFile& operator=(const StatisticsFile&) = delete;

  // A failure does not disturb what is measured: nothing more is written, and close() tells.
  void step(const StepStatistics& step);
  void request(const OutputEvent& last);
  // The summary, and the file's end. Throws Error{kSystem} of the first failure.
  void close(const EngineStatistics& summary);

 private:
  using Clock = std::chrono::steady_clock;
  double seconds() const;
  void end_line();
  void flush();

  std::filesystem::path path_;
  int fd_ = -1;
  int error_ = 0;  // errno of the first failure
  std::string lines_;
  Clock::time_point start_ = Clock::now();
  double flushed_ = 0;
  double now_ = 0;
};

}  // namespace ingot
