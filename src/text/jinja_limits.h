#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

// What bounds a template: templates come with downloaded checkpoints and may be hostile.
namespace ingot::jinja {

struct Limits {
  std::size_t max_source_bytes = std::size_t{1} << 20;
  std::size_t max_output_bytes = std::size_t{64} << 20;
  // Values alive at one time, the output included.
  std::size_t max_memory_bytes = std::size_t{512} << 20;
  // Bytes copied plus 32 for each expression evaluated: bounds the time (a few seconds).
  std::uint64_t max_work = std::uint64_t{1} << 30;
  // Nested calls, statements and expressions at one time: bounds the C++ stack.
  int max_depth = 400;
  // range() longer than this fails, as in jinja2's sandbox.
  std::int64_t max_range = 100000;
};

// A failure inside the engine; the evaluator adds line and column and makes it an ingot::Error.
struct Failure {
  std::string message;
};

// raise_exception(message): the template itself refuses the request.
struct Raised {
  std::string message;
};

template <typename... Args>
[[noreturn]] void fail_template(fmt::format_string<Args...> format, Args&&... args) {
  throw Failure{fmt::format(format, std::forward<Args>(args)...)};
}

// Books of one render. Not thread-safe: every render has its own.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  // Throws Failure when `bytes` more would pass the limit.
  void take(std::size_t bytes) {
    if (bytes > limits_.max_memory_bytes - live_)
      fail_template("more than {} bytes of values: the template is too expensive",
                    limits_.max_memory_bytes);
    live_ += bytes;
    work(bytes);
  }
  void give_back(std::size_t bytes) noexcept { live_ -= bytes; }

  void work(std::uint64_t units) {
    if (units > limits_.max_work - work_)
      fail_template("the template runs too long (limit of {} units of work)", limits_.max_work);
    work_ += units;
  }

  std::size_t live() const { return live_; }
  const Limits& limits() const { return limits_; }

 private:
  Limits limits_;
  std::size_t live_ = 0;
  std::uint64_t work_ = 0;
};

}  // namespace ingot::jinja
