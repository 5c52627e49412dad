#include "text/jinja_render.h"

#include "text/jinja_interpreter.h"
#include "text/jinja_json.h"
#include "text/jinja_lexer.h"

#include <nlohmann/json.hpp>

namespace ingot::jinja {

Result<Rendered> render_program(const Program& program,
                                const std::function<Variables(Budget&)>& make_variables,
                                const RenderOptions& options) {
  Interpreter interpreter(program, options.limits, options.now);
  try {
    const TextPtr text = interpreter.render(make_variables(interpreter.budget()));
    return Rendered{text->bytes, text->foreign};
  } catch (const Raised& raised) {
    return Error(ErrorCode::kRequest, raised.message);
  } catch (const Failure& failure) {
    const Position at = position_of(program.source, interpreter.position());
    return Error(ErrorCode::kBadInput, fmt::format("[jinja.render] line {} column {}: {}", at.line,
                                                   at.column, failure.message));
  }
}

Result<Rendered> render_program(const Program& program, const OrderedJson& variables,
                                const RenderOptions& options) {
  return render_program(
      program,
      [&](Budget& budget) {
        Variables out;
        for (const auto& [name, value] : variables.items())
          out.emplace_back(name, from_json(budget, value, false));
        return out;
      },
      options);
}

}  // namespace ingot::jinja
