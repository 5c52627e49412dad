#pragma once

#include "base/error.h"

#include <exception>

namespace ingot {

// Any exception as the Error it stands for: memory that ran out is kDoesNotFit, what the system
// refused kSystem, what nobody expected kBug.
Error as_error(const std::exception& exception);

}  // namespace ingot
