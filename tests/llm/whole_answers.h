#pragma once

#include "ingot/request.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace ingot::test {

// The answers of requests, each whole, as the events of a loop make them up.
class WholeAnswers {
 public:
  void take(OutputEvent&& event);

  // By index; empty for a request of which nothing was told.
  const std::vector<OutputEvent>& of(RequestId id) const;
  bool ended(RequestId id) const;
  std::size_t requests() const { return answers_.size(); }
  // "" or what no loop may tell: an event after a request's last, an answer left out.
  const std::string& wrong() const { return wrong_; }

 private:
  std::map<RequestId, std::vector<OutputEvent>> answers_;
  std::string wrong_;
};

// The first thing in which `got` is not `wanted` to the bit: tokens, logprobs, text, end; "" when
// there is none. `is_beginning`: got may stop early, and then it was told no end.
std::string difference(const OutputEvent& wanted, const OutputEvent& got,
                       bool is_beginning = false);

}  // namespace ingot::test
