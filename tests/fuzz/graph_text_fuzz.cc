#include "base/error.h"
#include "ir/graph.h"
#include "ops/ops.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

// Any bytes are refused with kBadInput, or give a valid graph that prints and parses to itself.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ingot;
  try {
    const Graph g =
        parse_graph(std::string_view(reinterpret_cast<const char*>(data), size), all_ops());
    verify(g);
    const std::string text = print(g);
    if (print(parse_graph(text, all_ops())) != text) std::abort();
    print_dot(g);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kBadInput) std::abort();
  }
  return 0;
}
