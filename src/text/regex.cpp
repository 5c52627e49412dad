#include "text/regex.h"

#include "base/check.h"
#include "base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

namespace ingot {
namespace {

constexpr std::size_t kMaxPattern = 64 * 1024;
constexpr std::uint32_t kMatchLimit = 10'000'000;
constexpr std::uint32_t kHeapLimitKib = 512 * 1024;
constexpr std::size_t kJitStackMax = 4 * 1024 * 1024;

std::string describe_error(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct RegexScratch::State {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, kJitStackMax, nullptr);

  State() {
    check(data != nullptr && context != nullptr && stack != nullptr, "memory for matching");
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_depth_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

RegexScratch::RegexScratch() = default;
RegexScratch::~RegexScratch() = default;

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;
  std::string pattern;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern) : code_(std::make_unique<Code>()) {
  if (pattern.size() > kMaxPattern)
    fail(ErrorCode::kBadInput, "[tokenizer.regex] a pattern of {} bytes, limit {}", pattern.size(),
         kMaxPattern);
  const std::string translated = to_pcre2(pattern);
  code_->pattern = std::string(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  check(context != nullptr, "memory for a pattern");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context, 200);
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                              &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code_->code == nullptr)
    fail(ErrorCode::kBadInput, "[tokenizer.regex] pattern {:?} at {}: {}", code_->pattern, offset,
         describe_error(error));
  code_->jit = pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE) == 0;
}

Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

std::optional<Span> Regex::find(std::string_view text, std::size_t from,
                                RegexScratch& scratch) const {
  if (!scratch.state_) scratch.state_ = std::make_unique<RegexScratch::State>();
  auto& state = *scratch.state_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (code_->jit)
    result = pcre2_jit_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                             state.data, state.context);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)  // the interpreter keeps its frames on the heap
    result = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         state.data, state.context);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    fail(ErrorCode::kRequest, "[tokenizer.regex] the pattern {:?} cannot be matched: {}",
         code_->pattern, describe_error(result));
  const PCRE2_SIZE* vector = pcre2_get_ovector_pointer(state.data);
  return Span{vector[0], std::max(vector[0], vector[1])};
}

}  // namespace ingot
