#include "cli/interrupt.h"

#include "base/error.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace ingot::cli {

namespace {

constexpr int kInterruptedExit = 130;  // as in the table of base/error.cpp
volatile std::sig_atomic_t pending = 0, staying = 0;
// The handler writes to the one end, whoever waits for input watches the other: a signal just
// before a read, or on another thread, would not end the read.
int told = -1, telling = -1;

void on_interrupt(int signal) {
  // A terminal that closes may say so twice, by the kernel and by the shell.
  if (pending != 0 && staying == 0 && signal != SIGHUP) ::_exit(kInterruptedExit);
  pending = signal;
  const int error = errno;
  if (::write(telling, "", 1) < 0) errno = error;  // full: told already
}

void catch_signal(int signal) {
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0;  // no restart: a read from the terminal returns
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void catch_interrupts() {
  if (int ends[2]; ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) told = ends[0], telling = ends[1];
  catch_signal(SIGINT);
}

void catch_termination() {
  catch_signal(SIGTERM);
  struct sigaction hangup{};
  const bool asked_to_stay =  // nohup
      ::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
  if (!asked_to_stay) catch_signal(SIGHUP);
}

bool interrupted() {
  return pending != 0;
}

void stay_when_interrupted() {
  staying = 1;
}

bool wait_for_input() {
  pollfd watched[] = {{STDIN_FILENO, POLLIN, 0}, {told, POLLIN, 0}};
  while (!interrupted())
    if (::poll(watched, 2, -1) > 0 && watched[0].revents != 0) return true;
  return false;
}

void clear_interrupt() {
  char drained[16];
  while (::read(told, drained, sizeof drained) > 0) {
  }
  pending = 0;
}

void throw_if_interrupted() {
  if (interrupted())
    fail(ErrorCode::kInterrupted, "[interrupted] stopped by {}",
         pending == SIGTERM  ? "SIGTERM"
         : pending == SIGHUP ? "SIGHUP"
                             : "Ctrl-C");
}

}  // namespace ingot::cli
