#include "cli/output.h"

#include "base/error.h"
#include "cli/interrupt.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

namespace ingot::cli {

namespace {

constexpr std::size_t kMaxInput = std::size_t{1} << 30;

}  // namespace

// Not through stdio: a signal, Ctrl-C in a chat, would end its write halfway.
void print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      fail(ErrorCode::kSystem, "[stdout] {}", std::strerror(errno));
  }
}

void print_json(const OrderedJson& value) {
  print(dump_json(value) + "\n");
}

std::string read_standard_input() {
  std::string text;
  std::array<char, 1 << 16> chunk;
  while (true) {
    if (!wait_for_input()) throw_if_interrupted();
    const ssize_t n = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (n == 0) return text;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ErrorCode::kSystem, "[stdin] {}", std::strerror(errno));
    if (text.size() + static_cast<std::size_t>(n) > kMaxInput)
      fail(ErrorCode::kBadInput, "[stdin] larger than {} bytes", kMaxInput);
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
}

bool input_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

void refuse_over_input(const std::string& out, std::span<const std::filesystem::path> inputs) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(out, error)) return;  // nothing there, or nothing that is replaced
  for (const fs::path& input : inputs)
    if (fs::equivalent(out, input, error))
      fail(ErrorCode::kUsage, "[usage] the output {} is the input {}; give another name", out,
           input.string());
}

void refuse_one_output(const std::string& out, const std::string& other) {
  namespace fs = std::filesystem;
  if (out == "/dev/null") return;
  std::error_code error;
  const fs::path a = fs::weakly_canonical(out, error), b = fs::weakly_canonical(other, error);
  if ((a == b && !a.empty()) || fs::equivalent(out, other, error))
    fail(ErrorCode::kUsage, "[usage] two outputs, {} and {}, are one file; give another name", out,
         other);
}

}  // namespace ingot::cli
