#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace ingot {

// Why a call could not go on. One table (error.cpp) maps each to exit code, HTTP status and name.
enum class ErrorCode {
  kRequest,      // one request or check failed; others are fine
  kUsage,        // the command line or an argument of the API is wrong
  kBadInput,     // a file (checkpoint, tokenizer, template, engine) is broken or not supported
  kDoesNotFit,   // memory: the numbers are in the message
  kDevice,       // GPU or driver trouble
  kSystem,       // the operating system refused: disk, permission, network
  kBug,          // an invariant of Ingot is broken
  kInterrupted,  // the user stopped it
};

struct ErrorCodeInfo {
  std::string_view name;
  int exit_code;
  int http_status;
};

// The row of the one table for `code`.
const ErrorCodeInfo& describe(ErrorCode code);

// The single exception type. Message form: "[where.thing] what, got, wanted, hint".
class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorCode code_;
  std::string message_;
};

// Throws Error with a formatted message: fail(ErrorCode::kBadInput, "[gguf.header] magic {}, wanted
// GGUF", m).
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ingot
