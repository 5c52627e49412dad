#pragma once

#include <termios.h>

#include <string>

namespace ingot::cli {

// While it lives, a signal that ends the process (SIGTERM, SIGHUP, SIGQUIT) first puts the terminal
// back; the terminal of a process in the background is its shell's, and stays as it is. One at a
// time.
class TerminalGuard {
 public:
  // `settings` are what the terminal gets back, `leave` is what it is sent then. A signal that is
  // ignored stays so.
  TerminalGuard(int terminal, const termios& settings, const std::string& leave);
  // The signals do what they did before.
  ~TerminalGuard();
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;
};

}  // namespace ingot::cli
