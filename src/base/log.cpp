#include "base/log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace ingot {

namespace {

LogLevel level_from_environment() {
  const char* text = std::getenv("INGOT_LOG");
  const std::string_view name = text ? text : "warning";
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return LogLevel::kWarning;
}

std::atomic<LogLevel>& current() {
  static std::atomic<LogLevel> level{level_from_environment()};
  return level;
}

}  // namespace

LogLevel log_level() {
  return current().load(std::memory_order_relaxed);
}

void set_log_level(LogLevel level) {
  current().store(level, std::memory_order_relaxed);
}

void log_line(LogLevel level, std::string_view message) {
  static constexpr std::string_view kNames[] = {"debug", "info", "warning", "error", ""};
  // One fwrite a line, so that lines of several threads do not mix.
  const std::string line = fmt::format("{}: {}\n", kNames[static_cast<int>(level)], message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace ingot
