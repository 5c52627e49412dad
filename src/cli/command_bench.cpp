#include "cli/options.h"
namespace ingot::cli {
void declare_bench(Command& command) {
  command.action([] { return 0; });
}
}  // namespace ingot::cli
