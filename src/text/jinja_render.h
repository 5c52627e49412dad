#pragma once

#include "base/json.h"
#include "base/result.h"
#include "text/jinja_ast.h"

#include <ctime>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ingot::jinja {

struct Rendered {
  std::string text;
  std::vector<Span> foreign;  // bytes that came from data marked so
};

using Variables = std::vector<std::pair<std::string, Value>>;

struct RenderOptions {
  Limits limits;
  std::time_t now = 0;  // for strftime_now
};

// Runs a program. `make_variables` fills what the template sees from the render's own budget.
// Errors: kRequest with the template's own message (raise_exception), else kBadInput with line and
// column. Thread-safe: a Program never changes.
Result<Rendered> render_program(const Program& program,
                                const std::function<Variables(Budget&)>& make_variables,
                                const RenderOptions& options);

// The same with an object's members as variables, none of them marked.
Result<Rendered> render_program(const Program& program, const OrderedJson& variables,
                                const RenderOptions& options);

}  // namespace ingot::jinja
