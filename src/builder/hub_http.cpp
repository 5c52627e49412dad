#include "builder/hub_http.h"

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace ingot {

std::string url_encode(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~' || (c == '/' && keep_slash);
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

// Where the body of one request goes: into memory, or to the end of a file.
struct HubConnection::Transfer {
  std::string body;
  std::size_t max_bytes = 0;

  int file = -1;
  std::uint64_t have = 0;  // bytes in the file
  std::uint64_t size = 0;
  const std::function<bool(std::uint64_t)>* on_bytes = nullptr;

  CURL* curl = nullptr;
  bool first = true;  // the status of the answer is not looked at yet
  bool discard = false;
  const std::function<bool()>* go_on = nullptr;
  bool stopped = false;
  std::exception_ptr thrown;  // by a callback of ours: none may pass through libcurl
  std::string trouble;        // a failure of our own
  double retry_after_s = -1;
  std::string error_code;  // X-Error-Code

  bool take(std::string_view bytes);
  // f(), false when it throws.
  template <typename F>
  bool guarded(F f) noexcept {
    try {
      return f();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }
};

struct HubConnection::Answer {
  CURLcode code = CURLE_OK;
  long status = 0;
  double retry_after_s = -1;
  std::string error_code;
  std::string detail;
};

bool HubConnection::Transfer::take(std::string_view bytes) {
  if (file < 0) {
    if (body.size() + bytes.size() > max_bytes) {
      trouble = fmt::format("an answer of more than {} bytes", max_bytes);
      return false;
    }
    body += bytes;
    return true;
  }
  if (std::exchange(first, false)) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    discard = status != 200 && status != 206;  // the body of an error is no data
    if (status == 200 && have > 0) {           // the server took no notice of the range
      if (::ftruncate(file, 0) != 0) trouble = std::strerror(errno);
      have = 0;
    }
  }
  if (discard) return true;
  if (have + bytes.size() > size) {
    trouble = fmt::format("more than the {} bytes the hub announced", size);
    return false;
  }
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(have));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      trouble = fmt::format("cannot write: {}", std::strerror(errno));
      return false;
    }
    have += static_cast<std::uint64_t>(written);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  if (*on_bytes && !(*on_bytes)(have)) stopped = true;
  return !stopped;
}

namespace {

template <typename T>
std::size_t on_body(char* data, std::size_t size, std::size_t count, void* context) {
  auto* transfer = static_cast<T*>(context);
  return transfer->guarded([&] { return transfer->take({data, size * count}); }) ? size * count : 0;
}

template <typename T>
int on_waiting(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto* transfer = static_cast<T*>(context);
  const bool go_on = transfer->guarded([&] { return !*transfer->go_on || (*transfer->go_on)(); });
  if (!go_on) transfer->stopped = true;
  return go_on ? 0 : 1;
}

template <typename T>
std::size_t on_header(char* data, std::size_t size, std::size_t count, void* context) {
  auto* transfer = static_cast<T*>(context);
  std::string_view line(data, size * count);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  const std::size_t colon = line.find(':');
  if (colon == line.npos) return size * count;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (name == "retry-after") {
    int seconds = 0;
    if (std::from_chars(value.data(), value.data() + value.size(), seconds).ec == std::errc())
      transfer->retry_after_s = seconds;
  } else if (name == "x-error-code") {
    transfer->error_code = value.substr(0, 64);
  }
  return size * count;
}

bool may_pass(CURLcode code, long status) {
  switch (code) {
    case CURLE_OK:
      return status == 408 || status == 429 || status >= 500;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

[[noreturn]] void fail_stopped() {
  fail(ErrorCode::kInterrupted, "[hub.fetch] stopped; run again to resume");
}

}  // namespace

HubConnection::HubConnection(const HubOptions& options, std::function<bool()> go_on)
    : options_(options), go_on_(std::move(go_on)) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  curl_ = curl_easy_init();
  if (!curl_) fail(ErrorCode::kSystem, "[hub.connect] libcurl cannot start");
}

HubConnection::~HubConnection() {
  curl_easy_cleanup(static_cast<CURL*>(curl_));
}

HubConnection::Answer HubConnection::perform(const std::string& path, Transfer& transfer) {
  CURL* curl = static_cast<CURL*>(curl_);
  curl_easy_reset(curl);
  transfer.curl = curl;
  const std::string url = options_.endpoint + path;
  const bool plain = options_.endpoint.starts_with("http://");  // a mirror in the own network
  char reason[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, plain ? "http,https" : "https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, plain ? "http,https" : "https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 8L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 20L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                   std::max(1L, static_cast<long>(options_.stall_timeout_s)));
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "ingot");
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &on_body<Transfer>);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &on_header<Transfer>);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  transfer.go_on = &go_on_;
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &on_waiting<Transfer>);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  if (!options_.certificates.empty())
    curl_easy_setopt(curl, CURLOPT_CAINFO, options_.certificates.c_str());
  if (!options_.token.empty()) {
    // libcurl sends it to the endpoint only, not to the host of a redirect.
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, options_.token.c_str());
  }
  if (transfer.file >= 0 && transfer.have > 0)
    curl_easy_setopt(curl, CURLOPT_RANGE, fmt::format("{}-", transfer.have).c_str());
  Answer answer;
  answer.code = curl_easy_perform(curl);
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
  answer.retry_after_s = transfer.retry_after_s;
  answer.error_code = transfer.error_code;
  answer.detail = !transfer.trouble.empty() ? transfer.trouble
                  : *reason                 ? reason
                                            : curl_easy_strerror(answer.code);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (transfer.stopped) fail_stopped();
  if (!transfer.trouble.empty())
    fail(ErrorCode::kSystem, "[hub.fetch] {}: {}", url, transfer.trouble);
  return answer;
}

// Sleeps and returns true if another attempt is due.
bool HubConnection::wait_before_retry(int attempt, const Answer& answer) const {
  if (attempt >= options_.attempts || !may_pass(answer.code, answer.status)) return false;
  double wait = options_.first_wait_s * static_cast<double>(1 << std::min(attempt - 1, 6));
  if (answer.code == CURLE_OK && answer.retry_after_s >= 0)
    wait = std::min(answer.retry_after_s, 120.0);
  log_info("[hub] {}; attempt {} of {} in {:.1f} s",
           answer.code == CURLE_OK ? fmt::format("status {}", answer.status) : answer.detail,
           attempt + 1, options_.attempts, wait);
  this->wait(wait);
  return true;
}

void HubConnection::wait(double seconds) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto now = Clock::now(); now < end; now = Clock::now()) {
    if (go_on_ && !go_on_()) fail_stopped();
    std::this_thread::sleep_for(
        std::min(std::chrono::duration<double>(end - now), std::chrono::duration<double>(0.1)));
  }
}

void HubConnection::fail_answer(const std::string& path, const Answer& answer) const {
  const std::string url = options_.endpoint + path;
  if (answer.code == CURLE_PEER_FAILED_VERIFICATION || answer.code == CURLE_SSL_CACERT_BADFILE)
    fail(ErrorCode::kSystem,
         "[hub.certificate] {}: {}; if the network has an authority of its own, name its file in "
         "SSL_CERT_FILE",
         url, answer.detail);
  if (answer.code != CURLE_OK)
    fail(ErrorCode::kSystem,
         "[hub.connect] {}: {}; check the network and HF_ENDPOINT, or set HF_HUB_OFFLINE=1 to use "
         "what is cached",
         url, answer.detail);
  switch (answer.status) {
    case 401:
      fail(ErrorCode::kBadInput,
           "[hub.access] {}: no such repository, or it is private: {} (HF_TOKEN, or the file token "
           "in "
           "HF_HOME)",
           url, options_.token.empty() ? "set a token" : "the token that is set does not open it");
    case 403:
      fail(ErrorCode::kBadInput,
           "[hub.access] {}: access refused{}: accept the model's terms on its page{}", url,
           answer.error_code == "GatedRepo" ? " (gated)" : "",
           options_.token.empty() ? " and set HF_TOKEN"
                                  : ", with the account that the token belongs to");
    case 404:
      fail(ErrorCode::kBadInput, "[hub.find] {}: not found{}: check the name and the revision", url,
           answer.error_code.empty() ? "" : " (" + answer.error_code + ")");
    default:
      fail(ErrorCode::kSystem, "[hub.fetch] {}: the hub answers {} after {} attempts; try later",
           url, answer.status, options_.attempts);
  }
}

std::string HubConnection::get(const std::string& path, std::size_t max_bytes) {
  for (int attempt = 1;; ++attempt) {
    Transfer transfer;
    transfer.max_bytes = max_bytes;
    const Answer answer = perform(path, transfer);
    if (answer.code == CURLE_OK && answer.status == 200) return std::move(transfer.body);
    if (!wait_before_retry(attempt, answer)) fail_answer(path, answer);
  }
}

void HubConnection::download(const Download& what) {
  struct File {
    int fd;
    ~File() { ::close(fd); }
  } file{::open(what.file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
  struct stat info{};
  if (file.fd < 0 || ::fstat(file.fd, &info) != 0)
    fail(ErrorCode::kSystem, "[hub.disk] {}: {}", what.file.string(), std::strerror(errno));
  auto have = static_cast<std::uint64_t>(info.st_size);
  if (have > what.size) have = 0;  // of another version
  if (have == 0 && ::ftruncate(file.fd, 0) != 0)
    fail(ErrorCode::kSystem, "[hub.disk] {}: {}", what.file.string(), std::strerror(errno));
  for (int attempt = 1; have < what.size; ++attempt) {
    Transfer transfer;
    transfer.file = file.fd;
    transfer.have = have;
    transfer.size = what.size;
    transfer.on_bytes = &what.on_bytes;
    Answer answer = perform(what.path, transfer);
    if (transfer.have > have) attempt = 1;  // it gets on
    have = transfer.have;
    if (have == what.size) break;
    if (answer.code == CURLE_OK && answer.status == 416) {
      have = 0;  // what is here does not belong to this file
      if (::ftruncate(file.fd, 0) == 0 && attempt < options_.attempts) continue;
    }
    // A short body without a word from the connection is a break, too.
    if (answer.code == CURLE_OK && (answer.status == 200 || answer.status == 206))
      answer.code = CURLE_PARTIAL_FILE;
    if (!wait_before_retry(attempt, answer)) fail_answer(what.path, answer);
  }
  if (::fsync(file.fd) != 0)
    fail(ErrorCode::kSystem, "[hub.disk] {}: {}", what.file.string(), std::strerror(errno));
}

}  // namespace ingot
