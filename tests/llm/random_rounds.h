#pragma once

#include <filesystem>
#include <string>

namespace ingot::test {

struct RoundResult {
  std::string text;   // for people: what ran and how it went
  std::string wrong;  // "" when all is well
};

// An engine from its start to its end, used at random for so many seconds: everything about it
// follows from the seed but the order in which threads come to run. Over a mock whose steps fail
// now and then and whose books are checked after each; over a checkpoint on the CPU.
RoundResult mock_round(unsigned seed, double seconds);
RoundResult model_round(unsigned seed, double seconds, const std::filesystem::path& checkpoint);

}  // namespace ingot::test
