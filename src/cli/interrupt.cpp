#include "cli/interrupt.h"

#include "base/error.h"

#include <unistd.h>

#include <csignal>

namespace ingot::cli {

namespace {

constexpr int kInterruptedExit = 130;  // as in the table of base/error.cpp
volatile std::sig_atomic_t pending = 0;

void on_interrupt(int) {
  if (pending != 0) ::_exit(kInterruptedExit);
  pending = 1;
}

}  // namespace

void catch_interrupts() {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no restart: a read from the terminal returns
  ::sigaction(SIGINT, &action, nullptr);
}

bool interrupted() {
  return pending != 0;
}

void clear_interrupt() {
  pending = 0;
}

void throw_if_interrupted() {
  if (interrupted()) fail(ErrorCode::kInterrupted, "[interrupted] stopped by Ctrl-C");
}

}  // namespace ingot::cli
