// op_check DEVICE [OPTION]...   the op driver on cpu, cuda or cuda:N
// Options: tests/ops/op_driver.h.
#include "base/error.h"
#include "llm/devices.h"

#include "tests/ops/op_driver.h"
#include <cstdio>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  using namespace ingot;
  if (argc < 2 || argv[1][0] == '-') {
    std::fputs("usage: op_check DEVICE [--op NAME] [--case NAME] [--format NAME] [--bench]\n",
               stderr);
    return describe(ErrorCode::kUsage).exit_code;
  }
  try {
    return run_op_driver(*open_device(argv[1]), std::vector<std::string>(argv + 2, argv + argc));
  } catch (const Error& e) {
    std::fprintf(stderr, "error: %s\n", e.message().c_str());
    return describe(e.code()).exit_code;
  }
}
