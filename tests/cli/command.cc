#include "tests/cli/command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

extern char** environ;

namespace ingot {

namespace fs = std::filesystem;

namespace {

fs::path fresh_path(const char* what) {
  static std::atomic<int> counter{0};
  return fs::temp_directory_path() / (std::string("ingot_cli_") + what + "." +
                                      std::to_string(getpid()) + "." + std::to_string(counter++));
}

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& t : texts) out.push_back(t.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

// Files stand in for pipes: no reader is needed while the command runs.
CommandResult run_command(const std::vector<std::string>& arguments, const CommandInput& input) {
  const fs::path in = fresh_path("in"), out = fresh_path("out"), err = fresh_path("err");
  std::ofstream(in, std::ios::binary) << input.standard_input;
  const std::string to = input.standard_output.empty() ? out.string() : input.standard_output;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, to.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);

  std::vector<std::string> words = {INGOT_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> settings = input.environment;
  for (char** e = environ; *e; ++e) settings.emplace_back(*e);  // the first of a name counts
  pid_t pid = 0;
  const int error = posix_spawn(&pid, INGOT_BINARY, &files, nullptr, pointers(words).data(),
                                pointers(settings).data());
  posix_spawn_file_actions_destroy(&files);
  CommandResult result;
  EXPECT_EQ(error, 0) << "cannot start " << INGOT_BINARY;
  int status = 0;
  if (error == 0 && waitpid(pid, &status, 0) == pid)
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = contents(out);
  result.err = contents(err);
  for (const fs::path& path : {in, out, err}) fs::remove(path);
  return result;
}

WorkFolder::WorkFolder() : path_(fresh_path("work")) {
  fs::create_directories(path_);
}

WorkFolder::~WorkFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string WorkFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  return path_ / name;
}

CommandResult WorkFolder::run(const std::vector<std::string>& arguments, CommandInput input) const {
  input.environment.push_back("INGOT_CACHE=" + (path_ / "cache").string());
  return run_command(arguments, input);
}

}  // namespace ingot
