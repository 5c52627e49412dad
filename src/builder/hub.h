#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

// Models by hub name, kept in the cache layout of huggingface_hub (models--org--name/{refs,blobs,
// snapshots}), so that either side finds what the other has fetched.
namespace ingot {

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::filesystem::path cache;  // the folder with the models--... folders
  std::string token;            // empty: none
  std::string certificates;     // file of the authorities that are trusted; empty: the system's
  bool offline = false;
  int attempts = 5;             // of one request, before a passing failure counts
  double first_wait_s = 1.0;    // before the second attempt; doubles
  double stall_timeout_s = 30;  // without a byte: the connection is given up and resumed

  // HF_ENDPOINT, HF_HUB_CACHE (else HF_HOME/hub, else XDG_CACHE_HOME or ~/.cache /huggingface/hub),
  // HF_TOKEN (else HF_TOKEN_PATH, else HF_HOME/token), HF_HUB_OFFLINE; certificates as other tools
  // take them: CURL_CA_BUNDLE, else REQUESTS_CA_BUNDLE, else SSL_CERT_FILE.
  static HubOptions from_environment();
};

struct HubProgress {
  std::string_view file;         // name in the repository
  std::uint64_t file_bytes = 0;  // of this file, here so far
  std::uint64_t file_total = 0;
  std::uint64_t bytes = 0;  // of all files to fetch, here so far
  std::uint64_t total = 0;
};
// Returns false to stop: the fetch ends in Error{kInterrupted} and can be resumed.
using ProgressCallback = std::function<bool(const HubProgress&)>;

// A name as the command line takes it: org/name[@revision][:file].
struct HubName {
  std::string repository;  // org/name
  std::string revision = "main";
  std::string file;  // empty: what the model needs
};
// Nothing if `text` cannot be a hub name (it is a path then, or a mistake).
std::optional<HubName> parse_hub_name(std::string_view text);

// Brings what Ingot needs of a model (config, tokenizer, chat template, and the weights:
// safetensors, else .bin, else Meta's .pth, else the only .gguf; with a file, just that) and
// returns the snapshot's folder, or the .gguf file. Complete files are not fetched again;
// broken-off ones are resumed; every file is verified before it gets its name. Safe against other
// processes doing the same.
//
// Throws Error: kUsage (no hub name; several .gguf, none named), kBadInput (no such repository,
// revision or file; access refused; damaged data; nothing to run in it), kSystem (network, disk,
// offline and not cached), kInterrupted. The message says what to do.
std::filesystem::path fetch_from_hub(std::string_view name, const HubOptions& options,
                                     const ProgressCallback& progress = {});

}  // namespace ingot
