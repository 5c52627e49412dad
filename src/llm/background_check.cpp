#include "llm/background_check.h"

#include "base/error.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace ingot {

namespace {

// The cache's own file is of no more use, and goes.
Error without_file(const Error& damage, const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  return Error(
      damage.code(),
      damage.message() +
          (error ? fmt::format(": it is in the cache and cannot be removed ({})", error.message())
                 : std::string(": it was in the cache and is removed, so run again")));
}

}  // namespace

// The thread and whoever waits share the work, a piece at a time: the thread's priority may not be
// raised again without privileges.
struct BackgroundCheck::State {
  State(std::shared_ptr<const EngineFile> engine, Damaged what)
      : file(std::move(engine)), check(*file, file->blobs()), damaged(what) {}

  // False when nothing is left to do.
  bool step() {
    const std::lock_guard lock(mutex);
    if (finished) return false;
    try {
      if (check.step()) return true;
    } catch (const Error& e) {
      damage = damaged == Damaged::kIsRemoved ? without_file(e, file->path()) : e;
    }
    finished = true;
    return false;
  }

  void run() {
    const sched_param none{};
    ::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &none);
    while (!stop && step()) continue;
  }

  const std::shared_ptr<const EngineFile> file;
  std::mutex mutex;
  BlobCheck check;  // guarded by `mutex`
  const Damaged damaged;
  std::atomic<bool> stop{false};  // of the thread
  std::optional<Error> damage;    // written before `finished`
  std::atomic<bool> finished{false};
};

BackgroundCheck::BackgroundCheck(std::shared_ptr<const EngineFile> file, Damaged damaged)
    : state_(std::make_shared<State>(std::move(file), damaged)) {
  std::thread([state = state_] { state->run(); }).detach();
}

BackgroundCheck::~BackgroundCheck() {
  state_->stop = true;
}

bool BackgroundCheck::finished() const {
  return state_->finished;
}

void BackgroundCheck::throw_if_damaged() const {
  if (state_->finished && state_->damage) throw Error(*state_->damage);
}

void BackgroundCheck::wait(const std::function<void()>& between) const {
  state_->stop = true;
  while (state_->step())
    if (between) between();
  throw_if_damaged();
}

}  // namespace ingot
