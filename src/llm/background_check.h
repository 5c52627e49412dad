#pragma once

#include "plan/engine_file.h"

#include <memory>

namespace ingot {

// Compares an engine's blobs with their checksums while it already answers, with time that nobody
// else wants. The thread is not waited for at the end: it owns what it reads, and stops soon.
class BackgroundCheck {
 public:
  explicit BackgroundCheck(std::shared_ptr<const EngineFile> file);
  ~BackgroundCheck();
  BackgroundCheck(const BackgroundCheck&) = delete;
  BackgroundCheck& operator=(const BackgroundCheck&) = delete;

  bool finished() const;
  // Throws Error{kBadInput} that names the blob, once a damaged one was found.
  void throw_if_damaged() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace ingot
