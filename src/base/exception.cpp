#include "base/exception.h"

#include <new>
#include <system_error>

namespace ingot {

Error as_error(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception))
    return {ErrorCode::kDoesNotFit, "[memory] the system gives no more memory"};
  if (dynamic_cast<const std::system_error*>(&exception))  // files, threads
    return {ErrorCode::kSystem, fmt::format("[system] {}", exception.what())};
  return {ErrorCode::kBug, fmt::format("[bug] {}", exception.what())};
}

}  // namespace ingot
