#pragma once

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/builder/tls_server.h"
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ingot::test {

inline std::string digest_hex(const EVP_MD* kind, std::string_view data) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(data.data(), data.size(), digest, &length, kind, nullptr);
  std::string out;
  for (const unsigned char byte : std::span(digest, length)) out += fmt::format("{:02x}", byte);
  return out;
}

// A model hub on 127.0.0.1 with one repository, org/tiny, and its misfortunes. With `tls` it speaks
// HTTPS.
class FakeHub {
 public:
  static constexpr std::size_t kLfsSize = 1000;  // files from here on carry a sha256
  static constexpr std::string_view kCommit = "0123456789abcdef0123456789abcdef01234567";

  std::map<std::string, std::string> files;
  std::string token;  // wanted, if not empty
  bool gated = false;
  bool ignore_range = false;
  bool damage = false;              // sends other bytes than it announces
  std::size_t cut = 0;              // the first answer with a file ends after so many bytes
  std::atomic<int> busy{0};         // so many requests are answered 503
  int retry_after_s = 0;            // which a busy one asks for
  std::string listing;              // instead of the real one
  std::atomic<bool> silent{false};  // requests are read and not answered

  explicit FakeHub(const TlsServer* tls = nullptr) : tls_(tls) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 16) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      std::abort();
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { accept_all(); });
  }
  ~FakeHub() { stop(); }

  void stop() {
    if (stopping_.exchange(true)) return;
    thread_.join();
    for (auto& worker : workers_) worker.join();
    ::close(listener_);
  }

  std::string endpoint() const {
    return fmt::format("{}://127.0.0.1:{}", tls_ ? "https" : "http", port_);
  }
  // Requests so far, "GET path range" each.
  std::vector<std::string> requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  int count(std::string_view part) {
    int n = 0;
    for (const std::string& request : requests()) n += request.find(part) != std::string::npos;
    return n;
  }

 private:
  void accept_all() {
    while (!stopping_) {
      pollfd wait{listener_, POLLIN, 0};
      if (::poll(&wait, 1, 20) <= 0) continue;
      const int client = ::accept(listener_, nullptr, nullptr);
      if (client >= 0) workers_.emplace_back([this, client] { serve(client); });
    }
  }

  static std::string header(const std::string& request, const std::string& name) {
    const std::size_t at = request.find("\r\n" + name + ": ");
    if (at == std::string::npos) return {};
    const std::size_t from = at + name.size() + 4;
    return request.substr(from, request.find("\r\n", from) - from);
  }

  static void answer(Peer& client, std::string_view status, std::string_view extra,
                     std::string_view body) {
    client.send(fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
                            status, body.size(), extra));
    client.send(body);
  }

  void serve(int socket) {
    Peer client(socket, tls_);
    std::string request;
    char buffer[4096];
    while (client.good() && request.find("\r\n\r\n") == std::string::npos) {
      const std::size_t n = client.receive(buffer, sizeof(buffer));
      if (n == 0) break;
      request.append(buffer, n);
    }
    while (silent && !stopping_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::size_t space = request.find(' ');
    if (space != std::string::npos && !stopping_)
      reply(client, request.substr(space + 1, request.find(' ', space + 1) - space - 1), request);
  }

  void reply(Peer& client, const std::string& path, const std::string& request) {
    const std::string range = header(request, "Range");
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back("GET " + path + " " + range);
    }
    if (busy.fetch_sub(1) > 0)
      return answer(client, "503 Busy", fmt::format("Retry-After: {}\r\n", retry_after_s), "busy");
    if (!token.empty() && header(request, "Authorization") != "Bearer " + token)
      return answer(client, "401 No", "X-Error-Code: RepoNotFound\r\n", "{}");
    if (gated) return answer(client, "403 No", "X-Error-Code: GatedRepo\r\n", "{}");
    if (path == "/api/models/org/tiny/revision/main?blobs=true")
      return answer(client, "200 OK", "", listing.empty() ? list() : listing);
    const std::string prefix = fmt::format("/org/tiny/resolve/{}/", kCommit);
    const auto file =
        path.starts_with(prefix) ? files.find(path.substr(prefix.size())) : files.end();
    if (file == files.end())
      return answer(client, "404 No", "X-Error-Code: EntryNotFound\r\n", "{}");
    send_file(client, file->first, file->second, range);
  }

  void send_file(Peer& client, const std::string& name, std::string data,
                 const std::string& range) {
    if (damage && !data.empty()) data[0] = static_cast<char>(data[0] ^ 1);
    std::size_t from = 0;
    if (range.starts_with("bytes=") && !ignore_range) from = std::stoul(range.substr(6));
    if (from > 0 && from >= data.size()) return answer(client, "416 No", "", "");
    const std::string_view body = std::string_view(data).substr(from);
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = cut_.insert(name).second;
    }
    const std::size_t sent = first && cut > 0 && cut < body.size() ? cut : body.size();
    const std::string partial =
        fmt::format("Content-Range: bytes {}-{}/{}\r\n", from, data.size() - 1, data.size());
    client.send(fmt::format("HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
                            from > 0 ? "206 Part" : "200 OK", body.size(),
                            from > 0 ? partial : ""));
    client.send(body.substr(0, sent));
  }

  std::string list() const {
    std::string out = fmt::format(R"({{"sha": "{}", "siblings": [)", kCommit);
    bool first = true;
    for (const auto& [name, data] : files) {
      const std::string blob = fmt::format("blob {}", data.size()) + '\0' + data;
      out += fmt::format(R"({}{{"rfilename": "{}", "size": {}, "blobId": "{}")", first ? "" : ", ",
                         name, data.size(), digest_hex(EVP_sha1(), blob));
      if (data.size() >= kLfsSize)
        out += fmt::format(R"(, "lfs": {{"sha256": "{}", "size": {}}})",
                           digest_hex(EVP_sha256(), data), data.size());
      out += "}";
      first = false;
    }
    return out + "]}";
  }

  const TlsServer* tls_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::set<std::string> cut_;
  std::vector<std::thread> workers_;
  std::thread thread_;
};

}  // namespace ingot::test
