#include "llm/statistics_file.h"

#include "base/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace ingot {

namespace {

constexpr std::size_t kMuch = 1 << 16;
constexpr double kFlushSeconds = 1;

void field(std::string& line, const char* name, std::int64_t value) {
  fmt::format_to(std::back_inserter(line), ",\"{}\":{}", name, value);
}

// Microseconds: a double's shortest text takes ten times as long to make.
void field(std::string& line, const char* name, double seconds) {
  const auto us = static_cast<std::int64_t>(seconds * 1e6 + 0.5);
  fmt::format_to(std::back_inserter(line), ",\"{}\":{}.{:06}", name, us / 1000000, us % 1000000);
}

}  // namespace

StatisticsFile::StatisticsFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0)
    fail(ErrorCode::kSystem, "[statistics] {}: {}", path_.string(), std::strerror(errno));
}

StatisticsFile::~StatisticsFile() {
  flush();
  if (fd_ >= 0) ::close(fd_);
}

double StatisticsFile::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void StatisticsFile::end_line() {
  lines_ += "}\n";
  if (lines_.size() < kMuch && now_ - flushed_ < kFlushSeconds) return;
  flush();
  flushed_ = now_;
}

void StatisticsFile::flush() {
  std::string_view rest = lines_;
  while (!rest.empty() && error_ == 0) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written >= 0)
      rest.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      error_ = errno;
  }
  lines_.clear();
}

void StatisticsFile::step(const StepStatistics& s) {
  now_ = seconds();
  lines_ += R"({"type":"step")";
  field(lines_, "time", now_);
  field(lines_, "step", s.step);
  field(lines_, "tokens", s.tokens);
  field(lines_, "decode_tokens", s.decode_tokens);
  field(lines_, "sequences", s.sequences);
  field(lines_, "running", s.running);
  field(lines_, "waiting", s.waiting);
  field(lines_, "preempted", s.preempted);
  field(lines_, "free_pages", s.free_pages);
  field(lines_, "kept_pages", s.kept_pages);
  field(lines_, "schedule_seconds", s.schedule_seconds);
  field(lines_, "run_seconds", s.run_seconds);
  field(lines_, "commit_seconds", s.commit_seconds);
  end_line();
}

void StatisticsFile::request(const OutputEvent& last) {
  const RequestStatistics& r = last.statistics;
  now_ = seconds();
  lines_ += R"({"type":"request")";
  field(lines_, "time", now_);
  field(lines_, "id", static_cast<std::int64_t>(last.id));
  fmt::format_to(std::back_inserter(lines_), R"(,"finish":"{}")", to_string(last.finish));
  field(lines_, "queue_seconds", r.queue_seconds);
  field(lines_, "first_token_seconds", r.first_token_seconds);
  field(lines_, "total_seconds", r.total_seconds);
  field(lines_, "token_gap_mean", r.token_gap_mean);
  field(lines_, "token_gap_max", r.token_gap_max);
  field(lines_, "prompt_tokens", r.prompt_tokens);
  field(lines_, "cached_tokens", r.cached_tokens);
  field(lines_, "generated_tokens", r.generated_tokens);
  field(lines_, "preemptions", r.preemptions);
  field(lines_, "pages", r.pages);
  end_line();
}

void StatisticsFile::close(const EngineStatistics& e) {
  now_ = seconds();
  lines_ += R"({"type":"summary")";
  field(lines_, "time", now_);
  const std::pair<const char*, std::int64_t> fields[] = {{"steps", e.steps},
                                                         {"requests", e.requests},
                                                         {"finished", e.finished},
                                                         {"cancelled", e.cancelled},
                                                         {"expired", e.expired},
                                                         {"failed", e.failed},
                                                         {"prompt_tokens", e.prompt_tokens},
                                                         {"cached_tokens", e.cached_tokens},
                                                         {"generated_tokens", e.generated_tokens},
                                                         {"preemptions", e.preemptions},
                                                         {"running", e.running},
                                                         {"waiting", e.waiting},
                                                         {"pages", e.pages},
                                                         {"free_pages", e.free_pages},
                                                         {"kept_pages", e.kept_pages},
                                                         {"host_pages", e.host_pages},
                                                         {"host_used", e.host_used},
                                                         {"evictions", e.evictions},
                                                         {"pages_to_host", e.pages_to_host},
                                                         {"pages_from_host", e.pages_from_host}};
  for (const auto& [name, value] : fields) field(lines_, name, value);
  end_line();
  flush();
  if (::close(std::exchange(fd_, -1)) != 0 && error_ == 0) error_ = errno;
  if (error_ != 0)
    fail(ErrorCode::kSystem, "[statistics] {}: {}", path_.string(), std::strerror(error_));
}

}  // namespace ingot
