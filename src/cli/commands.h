#pragma once

#include <functional>

namespace ingot::cli {

class Command;

// What the command line asks for: set by the command that was named, run after all of it is parsed.
// Returns the exit code; throws Error.
using Action = std::function<int()>;

// Each declares its options and its action; one file each.
void declare_run(Command& command);
void declare_batch(Command& command);
void declare_build(Command& command);
void declare_logits(Command& command);
void declare_perplexity(Command& command);
void declare_tokenize(Command& command);
void declare_detokenize(Command& command);
void declare_render(Command& command);
void declare_plan(Command& command);
void declare_inspect(Command& command);
void declare_bench(Command& command);
void declare_bench_offline(Command& command);
void declare_devices(Command& command);

}  // namespace ingot::cli
