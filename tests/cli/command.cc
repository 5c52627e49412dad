#include "tests/cli/command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

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

bool is_running(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

void interrupt_once(pid_t pid, const CommandInput& input) {
  while (is_running(pid) && !input.interrupt_when())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ::kill(pid, input.interrupt);  // until it is waited for, the number is its own
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
  int pipe[2] = {-1, -1};
  if (input.output_closed) {
    EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    ::close(pipe[0]);
    posix_spawn_file_actions_adddup2(&files, pipe[1], 1);
  } else {
    posix_spawn_file_actions_addopen(&files, 1, to.c_str(), O_WRONLY | O_CREAT, 0600);
  }
  posix_spawn_file_actions_addopen(&files, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);

  std::vector<std::string> words = input.prefix;
  words.emplace_back(INGOT_BINARY);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> settings = input.environment;
  for (char** e = environ; *e; ++e) settings.emplace_back(*e);  // the first of a name counts
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, words[0].c_str(), &files, nullptr, pointers(words).data(),
                                 pointers(settings).data());
  posix_spawn_file_actions_destroy(&files);
  if (input.output_closed) ::close(pipe[1]);
  CommandResult result;
  EXPECT_EQ(error, 0) << "cannot start " << words[0];
  int status = 0;
  rusage used{};
  if (error == 0 && input.interrupt_when) interrupt_once(pid, input);
  if (error == 0 && wait4(pid, &status, 0, &used) == pid)
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.peak_resident = static_cast<std::size_t>(used.ru_maxrss) * 1024;
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
