#pragma once

#include "base/check.h"
#include "base/error.h"

#include <utility>
#include <variant>

namespace ingot {

// A value, or the Error that is an ordinary outcome of serving (std::expected is C++23).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    check(ok(), "value of a failed Result");
    return std::get<0>(state_);
  }
  const T& value() const& {
    check(ok(), "value of a failed Result");
    return std::get<0>(state_);
  }
  T&& value() && {
    check(ok(), "value of a failed Result");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    check(!ok(), "error of a good Result");
    return std::get<1>(state_);
  }

  // The value, or throws the error: for callers for whom it is not ordinary.
  T value_or_throw() && {
    if (!ok()) throw std::get<1>(state_);
    return std::get<0>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

}  // namespace ingot
