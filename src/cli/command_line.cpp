#include "cli/command_line.h"

#include "base/error.h"
#include "base/version.h"
#include "cli/output.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

namespace ingot::cli {

namespace {

struct Listed {
  const char* name;
  void (*declare)(Command&);
};

// In the order of `ingot --help`.
constexpr Listed kCommands[] = {
    {"run", declare_run},
    {"batch", declare_batch},
    {"build", declare_build},

    {"bench", declare_bench},
    {"plan", declare_plan},
    {"inspect", declare_inspect},
    {"tokenize", declare_tokenize},
    {"detokenize", declare_detokenize},
    {"render", declare_render},
    {"logits", declare_logits},
    {"perplexity", declare_perplexity},
    {"devices", declare_devices},
};

constexpr int kIndent = 32;

// A value that is there only when it was given.
template <typename T>
void optional_option(CLI::App& app, const std::string& names, std::optional<T>& to,
                     const std::string& help) {
  app.add_option_function<T>(names, [&to](const T& value) { to = value; }, help);
}

// A whole number, to the letter: not rounded, wrapped or cut to what fits.
template <typename T>
T whole_number(const std::string& option, const std::string& text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    fail(ErrorCode::kUsage, "[usage] {} {}: wanted a whole number, {} to {}", option, text, low,
         high);
  return value;
}

double real_number(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(ErrorCode::kUsage, "[usage] {} {}: wanted a number, such as 0.5", option, text);
  return value;
}

template <typename T, typename To>
void number_option(CLI::App& app, const std::string& names, To& to, T low, T high,
                   const std::string& help) {
  const std::string name = names.substr(names.rfind(',') + 1);
  app.add_option_function<std::string>(
         names,
         [&to, name, low, high](const std::string& text) {
           to = whole_number<T>(name, text, low, high);
         },
         help)
      ->type_name(std::is_unsigned_v<T> ? "UINT" : "INT");
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// What stands before the name of a command below `app` would be dropped: the command has its own.
void refuse_before_subcommand(const CLI::App& app) {
  if (app.get_subcommands().empty()) return;
  const std::string& below = app.get_subcommands().front()->get_name();
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0)
      fail(ErrorCode::kUsage,
           "[usage] {} stands before `{}`, which comes first: `ingot {} {} MODEL ...`",
           option->get_name(), below, app.get_name(), below);
}

}  // namespace

Command Command::subcommand(const std::string& name) {
  return Command(*app_.add_subcommand(name), chosen_);
}

void Command::describe(const std::string& what, const std::string& example) {
  app_.description(what);
  app_.footer("Example:\n  " + example);
}

void Command::positional(const std::string& name, std::string& to, const std::string& help) {
  // The parser would take a subcommand's name for a positional that it still wants.
  const bool may_be_below = !app_.get_subcommands({}).empty();
  CLI::Option* option = app_.add_option(name, to, help)->required(!may_be_below);
  if (may_be_below) wanted_.push_back(option);
}

void Command::flag(const std::string& names, bool& to, const std::string& help) {
  app_.add_flag(names, to, help);
}

void Command::option(const std::string& names, std::string& to, const std::string& help,
                     bool required) {
  app_.add_option(names, to, help)->required(required);
}

void Command::option(const std::string& names, std::int64_t& to, IntRange range,
                     const std::string& help) {
  number_option<std::int64_t>(app_, names, to, range.low, range.high,
                              fmt::format("{} (default: {})", help, to));
}

void Command::option(const std::string& names, std::optional<std::string>& to,
                     const std::string& help) {
  optional_option(app_, names, to, help);
}

void Command::option(const std::string& names, std::optional<std::int64_t>& to, IntRange range,
                     const std::string& help) {
  number_option<std::int64_t>(app_, names, to, range.low, range.high, help);
}

void Command::option(const std::string& names, std::optional<std::uint64_t>& to,
                     const std::string& help) {
  number_option<std::uint64_t>(app_, names, to, 0, std::numeric_limits<std::uint64_t>::max(), help);
}

void Command::option(const std::string& names, std::optional<double>& to, const std::string& help) {
  const std::string name = names.substr(names.rfind(',') + 1);
  app_.add_option_function<std::string>(
          names, [&to, name](const std::string& text) { to = real_number(name, text); }, help)
      ->type_name("NUMBER");
}

void Command::option(const std::string& names, std::vector<std::string>& to,
                     const std::string& help) {
  app_.add_option(names, to, help)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Command::choice(const std::string& names, std::string& to, std::vector<std::string> choices,
                     const std::string& help) {
  app_.add_option(names, to, help)->check(CLI::IsMember(std::move(choices)))->capture_default_str();
}

void Command::action(Action action) {
  app_.callback([&app = app_, &chosen = chosen_, wanted = wanted_, action = std::move(action)] {
    refuse_before_subcommand(app);
    if (!app.get_subcommands().empty()) return;
    for (const CLI::Option* option : wanted)
      if (option->count() == 0) throw CLI::RequiredError(option->get_name());
    chosen = action;
  });
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Ingot compiles large language models into engines and runs them.", "ingot");
  app.set_version_flag("--version", std::string("ingot ") + kVersion);
  app.footer(
      "MODEL is a Hugging Face folder, a Meta folder, a .gguf file, an .ingot engine or a hub "
      "name org/name.\n`ingot COMMAND --help` says more, with an example.");
  app.get_formatter()->column_width(kIndent);
  app.require_subcommand(1);
  Action chosen;
  std::vector<std::unique_ptr<Command>> commands;
  for (const Listed& listed : kCommands) {
    commands.push_back(std::make_unique<Command>(*app.add_subcommand(listed.name), chosen));
    listed.declare(*commands.back());
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help and --version
    std::ostringstream text;
    const int code = app.exit(e, text, text);
    print(text.str());
    return code;
  } catch (const CLI::ParseError& e) {
    const auto named = app.get_subcommands();
    if (!named.empty()) refuse_before_subcommand(*named.front());
    std::string what = one_line(e.what());
    const std::vector<std::string> rest = app.remaining(true);
    // The parser names them from the last to the first, and not at all where a command is missing.
    if (!rest.empty() && (named.empty() || dynamic_cast<const CLI::ExtrasError*>(&e))) {
      what = "not expected:";
      for (const std::string& word : rest) what += " " + word;
    }
    fail(ErrorCode::kUsage, "[usage] {}; see `ingot {}--help`", what,
         named.empty() ? "" : named.front()->get_name() + " ");
  }
  return chosen();
}

}  // namespace ingot::cli
