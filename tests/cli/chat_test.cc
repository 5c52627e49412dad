// A chat on a terminal: turns, history, Ctrl-C that stops an answer and not the program, Ctrl-D.
#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "tests/builder/edited_checkpoint.h"
#include "tests/cli/command.h"
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr char kCtrlC = 3, kCtrlD = 4;
// On a line of its own; before it the terminal is asked to mark what is pasted.
constexpr const char* kPromptLine = "\r\n\x1b[?2004h> ";

// The command on a terminal of its own, as a shell starts it: the terminal outlives the command,
// and keeps what the command leaves of it.
class Terminal {
 public:
  Terminal(std::vector<std::string> arguments, const std::string& cache) {
    arguments.insert(arguments.begin(), INGOT_BINARY);
    std::vector<char*> words;
    for (std::string& a : arguments) words.push_back(a.data());
    words.push_back(nullptr);
    int told[2];
    EXPECT_EQ(::pipe2(told, O_CLOEXEC), 0);
    shell_ = ::forkpty(&master_, nullptr, nullptr, nullptr);
    if (shell_ == 0) {
      ::setenv("INGOT_CACHE", cache.c_str(), 1);
      ::setenv("TERM", "xterm", 1);
      be_shell(told[1], words);
    }
    ::close(told[1]);
    told_ = told[0];
    EXPECT_EQ(::read(told_, &start_, sizeof start_), static_cast<ssize_t>(sizeof start_));
  }
  ~Terminal() {
    if (start_.child > 0) ::kill(start_.child, SIGKILL);
    ::kill(shell_, SIGKILL);
    ::waitpid(shell_, nullptr, 0);
    ::close(told_);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& text) {
    EXPECT_EQ(::write(master_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // As Ctrl-C does, but what is shown is not flushed.
  void interrupt() {
    ::usleep(1000);
    ::kill(start_.child, SIGINT);
  }
  // What is shown from the last call on, up to and with `text`. Fails the test when that does not
  // come.
  std::string until(const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (shown_.find(text) == std::string::npos && std::chrono::steady_clock::now() < end) {
      pollfd wait{master_, POLLIN, 0};
      char buffer[4096];
      if (::poll(&wait, 1, 100) <= 0) continue;
      const ssize_t n = ::read(master_, buffer, sizeof buffer);
      if (n <= 0) break;
      shown_.append(buffer, static_cast<std::size_t>(n));
    }
    const std::size_t at = shown_.find(text);
    EXPECT_NE(at, std::string::npos) << "wanted " << text << " in\n" << shown_;
    const std::size_t size = at == std::string::npos ? shown_.size() : at + text.size();
    std::string out = shown_.substr(0, size);
    shown_.erase(0, size);
    return out;
  }
  // Waits until nothing more is shown, and forgets it.
  void settle() {
    char buffer[4096];
    for (pollfd wait{master_, POLLIN, 0}; ::poll(&wait, 1, 300) > 0;)
      if (::read(master_, buffer, sizeof buffer) <= 0) break;
    shown_.clear();
  }
  // Ctrl-D, and the exit code.
  int leave() {
    type(std::string(1, kCtrlD));
    return exit_code();
  }
  // 128 + the signal that ended it; -1 when it does not end.
  int exit_code() {
    pollfd wait{told_, POLLIN, 0};
    int status = 0;
    if (::poll(&wait, 1, 20000) <= 0 || ::read(told_, &status, sizeof status) <= 0) return -1;
    start_.child = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  void send(int signal) { ::kill(start_.child, signal); }
  // Whether the terminal has the settings it began with.
  bool is_as_found() const {
    termios now{};
    EXPECT_EQ(::tcgetattr(master_, &now), 0);
    return now.c_iflag == start_.found.c_iflag && now.c_oflag == start_.found.c_oflag &&
           now.c_lflag == start_.found.c_lflag && std::ranges::equal(now.c_cc, start_.found.c_cc);
  }

 private:
  struct Start {
    pid_t child = -1;
    termios found{};  // by the command
  };

  // Tells the start, then how the command ended; stays until it is killed.
  [[noreturn]] static void be_shell(int tell, const std::vector<char*>& words) {
    Start start;
    ::tcgetattr(STDIN_FILENO, &start.found);
    start.child = ::fork();
    if (start.child == 0) {
      ::execv(INGOT_BINARY, words.data());
      ::_exit(127);
    }
    for (const int signal : {SIGINT, SIGQUIT, SIGTSTP}) std::signal(signal, SIG_IGN);
    int status = 0;
    if (::write(tell, &start, sizeof start) > 0 && ::waitpid(start.child, &status, 0) > 0 &&
        ::write(tell, &status, sizeof status) > 0)
      while (true) ::pause();
    ::_exit(1);
  }

  int master_ = -1;
  int told_ = -1;
  pid_t shell_ = -1;
  Start start_;
  std::string shown_;
};

TEST(ChatTest, TurnsHaveAHistory) {
  test::EditedCheckpoint c(fs::path(INGOT_FIXTURES) / "models" / "llama");
  test::write_text(c.file("chat_template.jinja"),
                   "{% if messages | length == 3 %}{{ raise_exception('after ' ~ "
                   "messages[0].content ~ ' and an ' ~ messages[1].role) }}{% endif %}"
                   "{{ messages[-1].content }}");
  const WorkFolder work;
  Terminal terminal({"run", c.save(), "--max-tokens", "3"}, work / "cache");
  terminal.until("> ");
  terminal.type("hello\n");
  terminal.until("hello\r\n");  // its echo
  EXPECT_GT(terminal.until(kPromptLine).size(), 4U) << "an answer";
  terminal.type("\n   \n");  // nothing to answer
  terminal.until("> ");
  terminal.type("again\n");
  EXPECT_THAT(terminal.until("> "), testing::Not(HasSubstr("error")));
  terminal.until("error: [chat.template] after hello and an assistant");
  terminal.until("> ");  // goes on without the turn that failed
  terminal.type(std::string(1, kCtrlC));
  terminal.until("Ctrl-D leaves");
  terminal.until("> ");
  EXPECT_FALSE(terminal.is_as_found());
  EXPECT_EQ(terminal.leave(), 0);
  EXPECT_TRUE(terminal.is_as_found());
}

TEST(ChatTest, ASignalAtThePromptLeavesTheTerminalAsItWas) {
  test::EditedCheckpoint c(fs::path(INGOT_FIXTURES) / "models" / "llama");
  test::write_text(c.file("chat_template.jinja"), "{{ messages[-1].content }}");
  const fs::path model = c.save();
  const WorkFolder work;
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT}) {
    Terminal terminal({"run", model}, work / "cache");
    terminal.until("> ");
    terminal.type("half a line");
    terminal.until("line");
    EXPECT_FALSE(terminal.is_as_found());
    terminal.send(signal);
    EXPECT_EQ(terminal.exit_code(), 128 + signal);
    EXPECT_TRUE(terminal.is_as_found());
    terminal.until("\x1b[?2004l");  // pastes are marked no more
  }
}

// A context of 64 tokens, a letter of this message is one.
TEST(ChatTest, LinesAreEdited) {
  test::EditedCheckpoint c(fs::path(INGOT_FIXTURES) / "models" / "llama");
  test::write_text(c.file("chat_template.jinja"),
                   "{{ raise_exception('got ' ~ messages[-1].content | length ~ ' ' ~ "
                   "(messages[-1].content | replace('\\n', '+'))[-20:] ~ '.') }}");
  const WorkFolder work;
  Terminal terminal({"run", c.save()}, work / "cache");
  const std::string left = "\x1b[D", right = "\x1b[C", up = "\x1b[A";
  const auto got = [&](const std::string& keys) {
    terminal.until("> ");
    terminal.type(keys);
    terminal.until("error: [chat.template] got ");
    const std::string line = terminal.until(".\r\n");
    return line.substr(0, line.size() - 3);
  };
  EXPECT_EQ(got("helo" + left + "l\n"), "5 hello");
  EXPECT_EQ(got("gr\xc3\xbc\xc3\x9f \xe2\x82\xac" + left + left + "e\n"),
            "7 gr\xc3\xbc\xc3\x9f"
            "e \xe2\x82\xac");
  EXPECT_EQ(got(up + up + "!\n"), "6 hello!");
  EXPECT_EQ(got("\x1b[200~one\r\ttwo\r\x1b[201~ three\n"), "14 one+\ttwo three");
  terminal.until("> ");
  terminal.type("thrown away");
  terminal.until("away");
  terminal.type(std::string(1, kCtrlC));
  EXPECT_THAT(terminal.until("> "), testing::Not(HasSubstr("Ctrl-D")));
  terminal.type("kept\n");
  terminal.until("got 4 kept.");
  // An arrow leaves a search, and moves in what was found.
  EXPECT_EQ(got("\x12kep" + right + "s\n"), "5 ksept");
  terminal.until("> ");
  terminal.type("stop\x1a");
  terminal.until("\x1b[?2004l\x1b[?2004h");  // there is no shell here that would keep it stopped
  terminal.type("ped\n");
  terminal.until("got 7 stopped.");
  EXPECT_EQ(got(std::string(9000, 'x') + "end\n"), "9003 " + std::string(17, 'x') + "end");
  terminal.until("> ");
  EXPECT_EQ(terminal.leave(), 0);
}

TEST(ChatTest, OldTurnsLeaveAFullContext) {
  test::EditedCheckpoint c(fs::path(INGOT_FIXTURES) / "models" / "llama");
  test::write_text(c.file("chat_template.jinja"),
                   "{% if messages[-1].content == 'show' %}{{ raise_exception(messages | length ~ "
                   "': ' ~ messages[0].content ~ messages[1].content) }}{% endif %}"
                   "{% for m in messages %}{{ m.content if m.role != 'assistant' }}{% endfor %}");
  const WorkFolder work;
  Terminal terminal({"run", c.save(), "--max-tokens", "4", "--ignore-eos", "--system", "S"},
                    work / "cache");
  const auto say = [&](const std::string& text) {
    terminal.until("> ");
    terminal.type(text + "\n");
    terminal.until(text + "\r\n");  // its echo
  };
  say(std::string(30, 'a'));
  say(std::string(20, 'b'));
  say(std::string(25, 'c'));  // 76 letters: the first turn has to go
  terminal.until("(the context of 64 tokens is full: the oldest turn is left out)");
  say("show");
  terminal.until("error: [chat.template] 6: S" + std::string(20, 'b'));
  say(std::string(64, 'd'));
  terminal.until("error: [chat.message] takes 65 tokens");
  say("show");  // nothing was lost, and nothing kept
  terminal.until("error: [chat.template] 6: S" + std::string(20, 'b'));
  say(std::string(60, 'e'));
  terminal.until("the oldest 2 turns are left out");
  terminal.until("(the answer is cut: the context of 64 tokens is full)");
  terminal.until("> ");
  EXPECT_EQ(terminal.leave(), 0);
}

TEST(ChatTest, AModelWithoutATemplateIsRefusedBeforeAnybodyTypes) {
  test::EditedCheckpoint c(fs::path(INGOT_FIXTURES) / "models" / "llama");
  test::write_text(c.file("tokenizer_config.json"), "{}");
  const WorkFolder work;
  Terminal terminal({"run", c.save()}, work / "cache");
  EXPECT_THAT(terminal.until("has no chat template"), testing::Not(HasSubstr("> ")));
  EXPECT_EQ(terminal.exit_code(), 3);
}

// The real model: its answers last. Empty where it is not.
fs::path real_model() {
  const char* cache = std::getenv("INGOT_CACHE");
  const char* home = std::getenv("HOME");
  const fs::path root =
      cache && *cache ? fs::path(cache) : fs::path(home ? home : "/") / ".cache" / "ingot";
  const fs::path model = root / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  return fs::exists(model) ? model : fs::path();
}

TEST(ChatTest, CtrlCStopsTheAnswerOnly) {
  const fs::path model = real_model();
  if (model.empty()) GTEST_SKIP() << "no SmolLM2; scripts/fetch_smollm2 brings it";
  const WorkFolder work;
  Terminal terminal({"run", model, "--ignore-eos", "--temperature", "0"}, work / "cache");
  terminal.until("> ");
  for (int turn = 0; turn < 2; ++turn) {
    terminal.type("Count from one to one million.\n");
    terminal.until("million.\r\n");
    terminal.until(" ");  // the answer has begun
    terminal.type(std::string(1, kCtrlC));
    for (int impatient = 0; impatient < 5; ++impatient) terminal.interrupt();
    const std::string rest = terminal.until(kPromptLine);
    EXPECT_LT(rest.size(), 20000U);
    EXPECT_THAT(rest, testing::Not(HasSubstr("^C")));
    terminal.settle();  // those that came after the end say how to leave
  }
  EXPECT_EQ(terminal.leave(), 0);
}

TEST(ChatTest, ASignalDuringAnAnswerLeavesTheTerminalAsItWas) {
  const fs::path model = real_model();
  if (model.empty()) GTEST_SKIP() << "no SmolLM2; scripts/fetch_smollm2 brings it";
  const WorkFolder work;
  Terminal terminal({"run", model, "--ignore-eos", "--temperature", "0"}, work / "cache");
  terminal.until("> ");
  terminal.type("Count from one to one million.\n");
  terminal.until("million.\r\n");
  terminal.until(" ");  // the answer has begun
  EXPECT_FALSE(terminal.is_as_found());
  terminal.send(SIGTERM);
  EXPECT_EQ(terminal.exit_code(), 128 + SIGTERM);
  EXPECT_TRUE(terminal.is_as_found());
}

// More than the terminal's queue holds.
TEST(ChatTest, TypingAheadDoesNotHideCtrlC) {
  const fs::path model = real_model();
  if (model.empty()) GTEST_SKIP() << "no SmolLM2; scripts/fetch_smollm2 brings it";
  const WorkFolder work;
  Terminal terminal({"run", model, "--ignore-eos", "--temperature", "0"}, work / "cache");
  terminal.until("> ");
  terminal.type("Count from one to one million.\n");
  terminal.until("million.\r\n");
  terminal.until(" ");
  for (int piece = 0; piece < 12; ++piece) terminal.type(std::string(500, 'x'));
  terminal.type(std::string(1, kCtrlC));
  EXPECT_LT(terminal.until(kPromptLine).size(), 20000U);
}

}  // namespace
}  // namespace ingot
