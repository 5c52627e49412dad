#include "text/jinja_interpreter.h"

#include <locale.h>

#include <algorithm>

// Functions a template finds without being given them: jinja2's and transformers' own.
namespace ingot::jinja {

namespace {

Value make_range(Interpreter& self, Arguments& arguments) {
  const Parameters given(arguments, "range", {"start", "stop", "step"});
  given.required(0);
  std::int64_t start = given.integer(0, 0);
  std::int64_t stop = start;
  if (given.get(1)) {
    stop = given.integer(1, 0);
  } else {
    start = 0;
  }
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) fail_template("range() arg 3 must not be zero");
  // In 128 bits, so that no bounds overflow.
  const __int128 distance = step > 0 ? __int128{stop} - start : __int128{start} - stop;
  const __int128 stride = step > 0 ? __int128{step} : -__int128{step};
  const __int128 count = distance <= 0 ? 0 : (distance + stride - 1) / stride;
  if (count > self.budget().limits().max_range)
    fail_template("Range too big. The limit is {} elements", self.budget().limits().max_range);
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i)
    items.emplace_back(start + i * step);
  return self.list(std::move(items), ListKind::kRange);
}

Value make_dict(Interpreter& self, Arguments& arguments) {
  auto dict = std::make_shared<Dict>(self.budget());
  if (arguments.positional.size() > 1)
    fail_template("dict() takes at most one positional argument");
  if (!arguments.positional.empty()) {
    const Value& first = arguments.positional[0];
    if (const Dict* other = first.dict()) {
      for (const auto& [key, value] : other->entries()) dict->set(key, value);
    } else {
      const ListPtr pairs = self.iterate(first);
      for (const Value& entry : pairs->items) {
        const ListPtr pair = self.iterate(entry);
        if (pair->items.size() != 2) fail_template("dict() wants pairs");
        dict->set(pair->items[0], pair->items[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict->set(self.string(name), value);
  return DictPtr(std::move(dict));
}

Value make_namespace(Interpreter& self, Arguments& arguments) {
  const Value dict = make_dict(self, arguments);
  auto made = std::make_shared<Namespace>();
  for (const auto& [key, value] : dict.dict()->entries()) {
    if (!key.text()) fail_template("namespace attributes must be strings");
    made->attributes.emplace_back(key.text()->bytes, value);
  }
  self.budget().take(sizeof(Namespace) + 64 + made->attributes.size() * (sizeof(Value) + 48));
  self.keep_alive(NamespacePtr(made));
  return NamespacePtr(std::move(made));
}

Value raise_exception(Interpreter& self, Arguments& arguments) {
  const Parameters given(arguments, "raise_exception", {"message"});
  throw Raised{to_text(self.budget(), given.required(0))->bytes};
}

// datetime.now().strftime(format): local time, English names, no zone (the datetime is naive).
Value strftime_now(Interpreter& self, Arguments& arguments) {
  const Parameters given(arguments, "strftime_now", {"format"});
  const std::string& wanted = given.required_text(0).bytes;
  if (wanted.size() > 1000) fail_template("strftime_now: a format of {} bytes", wanted.size());
  std::string format;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] != '%' || i + 1 >= wanted.size()) {
      format += wanted[i];
      continue;
    }
    const char directive = wanted[++i];
    if (directive == 'f') {
      format += "000000";
    } else if (directive != 'Z' && directive != 'z') {
      format += '%';
      format += directive;
    }
  }
  const std::time_t now = self.now();
  std::tm local{};
  if (!localtime_r(&now, &local)) fail_template("strftime_now: the clock is out of range");
  static const locale_t english = newlocale(LC_ALL_MASK, "C", nullptr);
  char buffer[8192];
  format += '.';  // so that an empty result differs from a failure
  const std::size_t length = strftime_l(buffer, sizeof(buffer), format.c_str(), &local, english);
  if (length == 0) fail_template("strftime_now: the result is too long");
  return self.string(std::string(buffer, length - 1));
}

Value make_joiner(Interpreter& self, Arguments& arguments) {
  const Parameters given(arguments, "joiner", {"sep"});
  const Value separator = given.get(0) ? *given.get(0) : self.string(", ");
  auto used = std::make_shared<bool>(false);
  return self.callable("joiner", [separator, used](Interpreter& inner, Arguments&) -> Value {
    if (std::exchange(*used, true)) return separator;
    return inner.string({});
  });
}

struct GlobalEntry {
  std::string_view name;
  Value (*function)(Interpreter&, Arguments&);
};

constexpr GlobalEntry kGlobals[] = {
    {"range", make_range},          {"dict", make_dict},
    {"namespace", make_namespace},  {"raise_exception", raise_exception},
    {"strftime_now", strftime_now}, {"joiner", make_joiner},
};

}  // namespace

std::optional<Value> find_global(Interpreter&, std::string_view name) {
  for (const GlobalEntry& entry : kGlobals) {
    if (entry.name != name) continue;
    return Value(CallablePtr(
        std::make_shared<const Callable>(Callable{std::string(name), {}, entry.function})));
  }
  return std::nullopt;
}

}  // namespace ingot::jinja
