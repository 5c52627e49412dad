#pragma once

#include "ingot/engine.h"
#include "llm/engine_thread.h"

#include <memory>

namespace ingot {

// An engine over a loop that somebody else made: a mock without weights, or a loop whose steps a
// test watches. It has no text of its own: encode() is refused.
struct EngineOver {
  // The loop outlives the engine, and nobody else calls it.
  static std::unique_ptr<Engine> loop(EngineLoop& loop, EngineThread::Options options);
};

}  // namespace ingot
