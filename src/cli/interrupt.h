#pragma once

namespace ingot::cli {

// Ctrl-C sets a flag that long work asks for; a second one, if nobody asked in between, ends the
// program at once.
void catch_interrupts();
// SIGTERM and, unless it is ignored (nohup), SIGHUP too count as Ctrl-C from now on: for work that
// keeps what is finished.
void catch_termination();
bool interrupted();
// From now on a second Ctrl-C is as good as the first: a chat is not lost by one too many.
void stay_when_interrupted();
// A chat goes on after its answer was stopped.
void clear_interrupt();
// Waits until standard input can be read, or has ended. False when Ctrl-C comes first.
bool wait_for_input();
// Throws Error{kInterrupted}, naming the signal, after Ctrl-C.
void throw_if_interrupted();

}  // namespace ingot::cli
