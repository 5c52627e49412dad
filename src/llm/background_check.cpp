#include "llm/background_check.h"

#include "base/error.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <optional>
#include <thread>

namespace ingot {

struct BackgroundCheck::State {
  std::shared_ptr<const EngineFile> file;
  std::atomic<bool> stop{false};
  std::optional<Error> damage;  // written before `finished`
  std::atomic<bool> finished{false};

  void run() {
    struct Stopped {};
    const sched_param none{};
    ::pthread_setschedparam(::pthread_self(), SCHED_IDLE, &none);
    try {
      file->verify_blobs([&](std::uint64_t) {
        if (stop) throw Stopped{};
      });
    } catch (const Error& e) {
      damage = e;
    } catch (const Stopped&) {
    }
    file.reset();
    finished = true;
  }
};

BackgroundCheck::BackgroundCheck(std::shared_ptr<const EngineFile> file)
    : state_(std::make_shared<State>()) {
  state_->file = std::move(file);
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

}  // namespace ingot
