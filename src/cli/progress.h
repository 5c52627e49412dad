#pragma once

#include <chrono>
#include <string>

namespace ingot::cli {

// Progress of one long piece of work on standard error: a bar on a terminal, otherwise a line every
// few seconds. Nothing shows for work that is done at once.
class Progress {
 public:
  Progress();
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `part` done, [0, 1]. Throws Error{kInterrupted} after Ctrl-C.
  void update(double part, const std::string& what);
  // Takes the bar away.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void draw_bar(double part, const std::string& what);

  bool terminal_;
  Clock::time_point next_;
  bool drawn_ = false;
  bool told_ = false;  // a line, not yet that all is done
};

}  // namespace ingot::cli
