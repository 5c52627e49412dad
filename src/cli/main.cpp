#include "base/error.h"
#include "base/exception.h"
#include "cli/command_line.h"
#include "cli/interrupt.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

namespace {

int report(const ingot::Error& error) {
  std::fflush(stdout);
  const std::string line = fmt::format("error: {}\n", error.message());
  std::fwrite(line.data(), 1, line.size(), stderr);
  return ingot::describe(error.code()).exit_code;
}

// A reader that goes away, and a file that may not grow, are errors of a write like any other: they
// are told, and what is half written is removed. Unheeded, both signals end the process.
void let_writes_fail() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

// A standard stream that is closed would lend its number to the next file that is opened, and
// messages would go there. The stand-in fails where the closed one would.
void hold_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
      return;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    hold_standard_streams();
    let_writes_fail();
    ingot::cli::catch_interrupts();
    return ingot::cli::run_command_line(argc, argv);
  } catch (const std::exception& e) {
    return report(ingot::as_error(e));
  }
}
