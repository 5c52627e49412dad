#include "base/error.h"
#include "cli/command_line.h"
#include "cli/interrupt.h"

#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>

namespace {

int report(ingot::ErrorCode code, const std::string& message) {
  std::fflush(stdout);
  const std::string line = fmt::format("error: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
  return ingot::describe(code).exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using ingot::ErrorCode;
  try {
    ingot::cli::catch_interrupts();
    return ingot::cli::run_command_line(argc, argv);
  } catch (const ingot::Error& e) {
    return report(e.code(), e.message());
  } catch (const std::bad_alloc&) {
    return report(ErrorCode::kDoesNotFit, "[memory] the system gives no more memory");
  } catch (const std::exception& e) {
    return report(ErrorCode::kBug, std::string("[bug] ") + e.what());
  }
}
