#pragma once

#include "plan/engine_file.h"

#include <functional>
#include <memory>

namespace ingot {

// Compares an engine's blobs with their checksums while it already answers, with time that nobody
// else wants. Before an answer counts, wait() does what is left at once. The thread itself is never
// waited for: it owns what it reads, and stops soon.
class BackgroundCheck {
 public:
  // What becomes of a damaged file: one of the engine cache is removed, so that the next run builds
  // it again.
  enum class Damaged { kStays, kIsRemoved };

  BackgroundCheck(std::shared_ptr<const EngineFile> file, Damaged damaged);
  ~BackgroundCheck();
  BackgroundCheck(const BackgroundCheck&) = delete;
  BackgroundCheck& operator=(const BackgroundCheck&) = delete;

  bool finished() const;
  // Throws Error{kBadInput} that names the blob, once a damaged one was found.
  void throw_if_damaged() const;
  // Returns when every blob agrees; throws as throw_if_damaged, and what `between` throws, which is
  // called after every piece.
  void wait(const std::function<void()>& between = {}) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ingot
