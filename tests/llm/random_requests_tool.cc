// Engines under random use, one after the other, for some time:
//   random_requests SECONDS [SEED]
// Prints a line a round; the exit code is 1 as soon as something is not as it should be.
#include "tests/builder/edited_checkpoint.h"
#include "tests/llm/random_rounds.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: random_requests SECONDS [SEED]\n");
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  const double seconds = std::atof(argv[1]);
  unsigned seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : std::random_device{}();
  const ingot::test::OwnCache cache;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  try {
    for (int round = 0; Clock::now() < end; ++round, ++seed) {
      const ingot::test::RoundResult r =
          round % 4 == 3 ? ingot::test::model_round(seed, 1, INGOT_FIXTURES "/models/llama")
                         : ingot::test::mock_round(seed, 1);
      std::printf("%s%s%s\n", r.text.c_str(), r.wrong.empty() ? "" : "; WRONG: ", r.wrong.c_str());
      std::fflush(stdout);
      if (!r.wrong.empty()) return 1;
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "seed %u: %s\n", seed, e.what());
    return 1;
  }
  return 0;
}
