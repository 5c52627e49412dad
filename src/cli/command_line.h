#pragma once

#include "cli/commands.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ingot::cli {

// What an option takes, the ends included.
struct IntRange {
  std::int64_t low, high;
};

// One command while it is declared: its options, each with the variable that takes the value
// (which keeps its value when the option is absent, and lives until the action has run). Keeps
// the parser's header, slow to compile, out of the commands.
class Command {
 public:
  Command(CLI::App& app, Action& chosen) : app_(app), chosen_(chosen) {}

  // A command below this one, which takes its place. Comes before this one's positionals.
  Command subcommand(const std::string& name);
  void describe(const std::string& what, const std::string& example);
  void positional(const std::string& name, std::string& to, const std::string& help);
  // `names`: "-p,--prompt".
  void flag(const std::string& names, bool& to, const std::string& help);
  void option(const std::string& names, std::string& to, const std::string& help,
              bool required = false);
  // The help names the default, which is what `to` holds.
  void option(const std::string& names, std::int64_t& to, IntRange range, const std::string& help);
  void option(const std::string& names, std::optional<std::string>& to, const std::string& help);
  void option(const std::string& names, std::optional<std::int64_t>& to, IntRange range,
              const std::string& help);
  void option(const std::string& names, std::optional<std::uint64_t>& to, const std::string& help);
  void option(const std::string& names, std::optional<double>& to, const std::string& help);
  // May be given again and again.
  void option(const std::string& names, std::vector<std::string>& to, const std::string& help);
  // One of `choices`.
  void choice(const std::string& names, std::string& to, std::vector<std::string> choices,
              const std::string& help);
  void action(Action action);

 private:
  CLI::App& app_;
  Action& chosen_;
  std::vector<CLI::Option*> wanted_;  // unless a command below is named
};

// Parses, acts, and returns the exit code. Prints help. Throws Error.
int run_command_line(int argc, char** argv);

}  // namespace ingot::cli
