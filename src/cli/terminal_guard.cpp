#include "cli/terminal_guard.h"

#include "base/check.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>

namespace ingot::cli {

namespace {

constexpr std::array kSignals = {SIGTERM, SIGHUP, SIGQUIT};

// What the handler reads: written only while no handler is set.
struct Kept {
  int terminal = -1;
  termios settings{};
  std::array<char, 32> leave{};
  std::size_t leave_size = 0;
  std::array<struct sigaction, kSignals.size()> before{};
};
Kept kept;

// Only calls that a handler may make. What the terminal does not take at once is not waited for:
// one that is stopped (Ctrl-S) would keep the process from its end.
void put_back() {
  const pid_t foreground = ::tcgetpgrp(kept.terminal);  // -1: no terminal of a shell's
  if (foreground >= 0 && foreground != ::getpgrp()) return;
  ::tcsetattr(kept.terminal, TCSANOW, &kept.settings);
  pollfd room{kept.terminal, POLLOUT, 0};
  if (::poll(&room, 1, 0) > 0 && ::write(kept.terminal, kept.leave.data(), kept.leave_size) < 0)
    return;
}

// Set for one time: what is raised again does what the signal does unheeded.
void on_end(int signal) {
  put_back();
  ::raise(signal);
}

}  // namespace

TerminalGuard::TerminalGuard(int terminal, const termios& settings, const std::string& leave) {
  check(kept.terminal < 0 && leave.size() <= kept.leave.size(), "one guard, a short sequence");
  kept.terminal = terminal;
  kept.settings = settings;
  kept.leave_size = leave.size();
  std::copy(leave.begin(), leave.end(), kept.leave.begin());
  struct sigaction action{};
  action.sa_handler = on_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &kept.before[i]);
    if (kept.before[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

TerminalGuard::~TerminalGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &kept.before[i], nullptr);
  kept.terminal = -1;
}

}  // namespace ingot::cli
