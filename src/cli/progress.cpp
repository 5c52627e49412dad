#include "cli/progress.h"

#include "cli/interrupt.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ingot::cli {

namespace {

using namespace std::chrono_literals;

constexpr int kBarWidth = 30;
constexpr std::size_t kTextWidth = 40;

}  // namespace

Progress::Progress()
    : terminal_(::isatty(STDERR_FILENO) == 1), next_(Clock::now() + (terminal_ ? 300ms : 1500ms)) {}

void Progress::update(double part, const std::string& what) {
  throw_if_interrupted();
  const auto now = Clock::now();
  // Lines end with the last one: they would look broken off.
  const bool last = told_ && part >= 1;
  if (now < next_ && !last) return;
  told_ = !terminal_ && !last;
  next_ = now + (terminal_ ? 100ms : 3000ms);
  part = std::clamp(part, 0.0, 1.0);
  if (terminal_) return draw_bar(part, what);
  const std::string line = fmt::format("{:3.0f} %  {}\n", part * 100, what);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void Progress::draw_bar(double part, const std::string& what) {
  const auto full = static_cast<std::size_t>(part * kBarWidth);
  const std::string bar = std::string(full, '#') + std::string(kBarWidth - full, '.');
  const std::string line =
      fmt::format("\r[{}] {:3.0f} %  {:.{}}\x1b[K", bar, part * 100, what, kTextWidth);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::finish() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
  drawn_ = false;
}

}  // namespace ingot::cli
