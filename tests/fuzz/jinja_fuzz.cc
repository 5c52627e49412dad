// Any bytes as a chat template: an error or a text, in bounded time and memory.
#include "base/error.h"
#include "base/json.h"
#include "text/jinja_json.h"
#include "text/jinja_parser.h"
#include "text/jinja_render.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ingot;
  static const OrderedJson context = parse_ordered_json(
      R"({"messages": [{"role": "system", "content": "Be brief."},
                       {"role": "user", "content": "Grüße <b> 1"},
                       {"role": "assistant", "content": [{"type": "text", "text": "x"}],
                        "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]}],
          "tools": [{"name": "f"}], "s": " a,b ", "n": null, "i": 3, "bos_token": "<s>",
          "add_generation_prompt": true})",
      "context");
  jinja::Limits limits;
  limits.max_work = 1 << 22;
  limits.max_memory_bytes = 16 << 20;
  limits.max_output_bytes = 1 << 20;
  try {
    const auto program =
        jinja::parse_program(std::string_view(reinterpret_cast<const char*>(data), size), limits);
    const auto result = jinja::render_program(
        *program,
        [&](jinja::Budget& budget) {
          jinja::Variables variables;
          for (const auto& [name, value] : context.items())
            variables.emplace_back(name, jinja::from_json(budget, value, name == "messages"));
          return variables;
        },
        {.limits = limits, .now = 1772719629});
    if (!result) return 0;
    std::size_t end = 0;
    for (const auto& span : result->foreign) {
      if (span.begin >= span.end || (end > 0 && span.begin <= end)) std::abort();
      end = span.end;
    }
    if (end > result->text.size()) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
