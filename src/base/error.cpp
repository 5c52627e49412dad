#include "base/error.h"

#include "base/check.h"

#include <array>

namespace ingot {

namespace {

constexpr std::array<ErrorCodeInfo, 8> kTable = {{
    {"request", 1, 400},
    {"usage", 2, 400},
    {"bad_input", 3, 400},
    {"does_not_fit", 4, 507},
    {"device", 5, 503},
    {"system", 6, 500},
    {"bug", 70, 500},
    {"interrupted", 130, 499},
}};

}  // namespace

const ErrorCodeInfo& describe(ErrorCode code) {
  const auto index = static_cast<std::size_t>(code);
  check(index < kTable.size(), "error code outside the table");
  return kTable[index];
}

void check_failed(std::string_view message, const std::source_location& where) {
  throw Error(ErrorCode::kBug,
              fmt::format("[bug {}:{} {}] {}; please report this with the command that caused it",
                          where.file_name(), where.line(), where.function_name(), message));
}

}  // namespace ingot
