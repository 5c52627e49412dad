#pragma once

#include <memory>
#include <optional>
#include <string>

namespace ingot::cli {

// Lines that a user types on the terminal that is standard input: arrow keys, a history, lines of
// any length, and what is pasted in one piece stays one line. While it lives the terminal shows
// nothing of what is typed between two lines, and loses none of it.
class LineEditor {
 public:
  // Throws Error{kSystem} when the terminal cannot be used.
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line that says something, without its end; nothing at the end of input (Ctrl-D).
  // Ctrl-C throws a line away.
  std::optional<std::string> ask();

  // Takes what was typed meanwhile for the next line: a terminal that is full misses Ctrl-C.
  void take_typed();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot::cli
