#pragma once

#include "builder/hub.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ingot {

// Percent-encodes all but unreserved characters; '/' stays if `keep_slash`.
std::string url_encode(std::string_view text, bool keep_slash);

// One connection to the hub. Not thread-safe.
class HubConnection {
 public:
  // `go_on` is asked several times a second while there is waiting; false stops as on_bytes does.
  HubConnection(const HubOptions& options, std::function<bool()> go_on);
  ~HubConnection();
  HubConnection(const HubConnection&) = delete;
  HubConnection& operator=(const HubConnection&) = delete;

  // The body of an answer of at most max_bytes. Retries what may pass. Throws as fetch_from_hub.
  std::string get(const std::string& path, std::size_t max_bytes);

  struct Download {
    std::string path;                             // below the endpoint
    std::filesystem::path file;                   // appended to: what is there is not fetched again
    std::uint64_t size = 0;                       // whole
    std::function<bool(std::uint64_t)> on_bytes;  // bytes there; false stops
  };
  // Brings the file to its whole size; resumes after a break as often as there is progress.
  void download(const Download& what);

 private:
  struct Transfer;
  struct Answer;
  Answer perform(const std::string& path, Transfer& transfer);
  bool wait_before_retry(int attempt, const Answer& answer) const;
  void wait(double seconds) const;
  [[noreturn]] void fail_answer(const std::string& path, const Answer& answer) const;

  const HubOptions& options_;
  std::function<bool()> go_on_;
  void* curl_ = nullptr;  // CURL*
};

}  // namespace ingot
