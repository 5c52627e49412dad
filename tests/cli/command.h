#pragma once

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ingot {

// What a run of the command gave.
struct CommandResult {
  int exit_code = -1;  // 128 + the signal that ended it
  std::string out;
  std::string err;
  std::size_t peak_resident = 0;  // bytes
};

struct CommandInput {
  std::string standard_input;
  std::vector<std::string> environment;  // NAME=value, over the test's own
  std::string standard_output;           // a file instead of CommandResult::out
  bool output_closed = false;            // standard output is a pipe that nobody reads
  std::vector<std::string> prefix;       // a program that runs the command: an emulator, a limit
  // Asked again and again while the command runs; once it holds, the command gets `interrupt`.
  std::function<bool()> interrupt_when;
  int interrupt = SIGINT;
};

// Runs INGOT_BINARY with these arguments; no shell. Fails the test when it cannot be started.
CommandResult run_command(const std::vector<std::string>& arguments,
                          const CommandInput& input = {});

// A folder of the test's own, gone with it; holds the cache of the commands it runs.
class WorkFolder {
 public:
  WorkFolder();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const;
  // run_command with the cache in this folder, on the CPU's two threads.
  CommandResult run(const std::vector<std::string>& arguments, CommandInput input = {}) const;

 private:
  std::filesystem::path path_;
};

}  // namespace ingot
