#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

namespace ingot::grammar {

// What bounds one description: it comes with a request and may be hostile.
struct GrammarLimits {
  std::size_t max_text_bytes = std::size_t{1} << 20;  // schema, pattern, grammar, joined choices
  std::size_t max_choices = 20000;                    // of one enum or list of choices
  int max_depth = 64;                                 // nesting of the description
  int max_repeat = 2000;                              // counted repetitions, items, lengths
  std::size_t max_expressions = 400000;               // of the grammar made from it
  std::size_t max_printed_bytes = std::size_t{16} << 20;  // of its expanded form
  double max_seconds = 5;                                 // from the start of its compilation
};

// When a compilation has to stop.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  Deadline() = default;
  Deadline(double seconds, const std::atomic<bool>* cancelled)
      : end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))),
        cancelled_(cancelled) {}

  // Throws Error{kRequest} past the end, Error{kInterrupted} when cancelled.
  void check() const;
  bool cancelled() const { return cancelled_ != nullptr && cancelled_->load(); }
  Clock::time_point end() const { return end_; }

 private:
  Clock::time_point end_ = Clock::time_point::max();
  const std::atomic<bool>* cancelled_ = nullptr;
};

}  // namespace ingot::grammar
