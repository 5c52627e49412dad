#include "builder/hub.h"

#include "base/error.h"
#include "base/file.h"
#include "builder/hub_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/builder/fake_hub.h"
#include <chrono>
#include <filesystem>
#include <fstream>

namespace ingot {
namespace {

namespace fs = std::filesystem;
using test::FakeHub;

std::string noise(std::size_t size, unsigned seed) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

class HubTest : public ::testing::Test {
 protected:
  HubTest() {
    std::string pattern = (fs::temp_directory_path() / "ingot-hub-XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    options_.cache = root_ / "hub";
    options_.endpoint = hub_.endpoint();
    options_.first_wait_s = 0.01;
    options_.stall_timeout_s = 5;
    hub_.files = {{"config.json", "{}"},
                  {"tokenizer.json", "{\"a\": 1}"},
                  {"README.md", "not needed"},
                  {"model.safetensors", noise(300000, 1)},
                  {"pytorch_model.bin", noise(2000, 2)}};
  }
  ~HubTest() override { fs::remove_all(root_); }

  fs::path repository() const { return options_.cache / "models--org--tiny"; }
  fs::path snapshot() const { return repository() / "snapshots" / FakeHub::kCommit; }
  fs::path fetch(std::string_view name = "org/tiny") { return fetch_from_hub(name, options_); }

  ErrorCode failure(std::string_view wanted, std::string_view name = "org/tiny") {
    try {
      fetch(name);
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(wanted), std::string::npos) << error.message();
      return error.code();
    }
    ADD_FAILURE() << "no error, wanted " << wanted;
    return ErrorCode::kBug;
  }
  int leftovers() const {
    int n = 0;
    for (const auto& entry : fs::recursive_directory_iterator(options_.cache))
      n += entry.path().string().find("incomplete") != std::string::npos ||
           entry.path().string().find(".tmp") != std::string::npos;
    return n;
  }

  FakeHub hub_;
  fs::path root_;
  HubOptions options_;
};

TEST_F(HubTest, FetchesWhatAModelNeedsInTheCommonLayout) {
  std::uint64_t last = 0;
  const fs::path folder = fetch_from_hub("org/tiny", options_, [&](const HubProgress& p) {
    EXPECT_LE(p.bytes, p.total);
    last = p.bytes;
    return true;
  });
  EXPECT_EQ(folder, snapshot());
  EXPECT_GE(last, 300000u);
  EXPECT_EQ(read_file(folder / "model.safetensors"), hub_.files["model.safetensors"]);
  EXPECT_EQ(read_file(folder / "config.json"), "{}");
  EXPECT_FALSE(fs::exists(folder / "README.md"));
  EXPECT_FALSE(fs::exists(folder / "pytorch_model.bin"));
  EXPECT_EQ(read_file(repository() / "refs/main"), FakeHub::kCommit);
  const std::string sha = test::digest_hex(EVP_sha256(), hub_.files["model.safetensors"]);
  EXPECT_EQ(fs::read_symlink(folder / "model.safetensors"), fs::path("../../blobs") / sha);
  EXPECT_EQ(leftovers(), 0);
  // A second time only the listing is asked for.
  const std::size_t before = hub_.requests().size();
  EXPECT_EQ(fetch(), folder);
  EXPECT_EQ(hub_.requests().size(), before + 1);
}

TEST_F(HubTest, ShardsAreThoseOfTheIndex) {
  hub_.files.erase("model.safetensors");
  hub_.files["model-00001-of-00002.safetensors"] = noise(5000, 3);
  hub_.files["model-00002-of-00002.safetensors"] = noise(5000, 4);
  hub_.files["model-other.safetensors"] = noise(5000, 5);
  hub_.files["model.safetensors.index.json"] =
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors",
                         "b": "model-00002-of-00002.safetensors"}})";
  fetch();
  EXPECT_TRUE(fs::exists(snapshot() / "model-00002-of-00002.safetensors"));
  EXPECT_FALSE(fs::exists(snapshot() / "model-other.safetensors"));
  hub_.files.erase("model-00002-of-00002.safetensors");
  EXPECT_EQ(failure("names 'model-00002-of-00002.safetensors'"), ErrorCode::kBadInput);
}

TEST_F(HubTest, ResumesAfterACut) {
  hub_.cut = 100000;
  fetch();
  EXPECT_EQ(read_file(snapshot() / "model.safetensors"), hub_.files["model.safetensors"]);
  EXPECT_EQ(hub_.count("model.safetensors bytes=100000-"), 1);
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(HubTest, ResumesWhatAnEarlierProcessLeft) {
  const std::string& data = hub_.files["model.safetensors"];
  const std::string sha = test::digest_hex(EVP_sha256(), data);
  fs::create_directories(repository() / "blobs");
  std::ofstream(repository() / "blobs" / (sha + ".incomplete")) << data.substr(0, 1234);
  fetch();
  EXPECT_EQ(hub_.count("model.safetensors bytes=1234-"), 1);
  EXPECT_EQ(read_file(snapshot() / "model.safetensors"), data);
}

TEST_F(HubTest, ServerWithoutRanges) {
  hub_.cut = 100000;
  hub_.ignore_range = true;
  fetch();
  EXPECT_EQ(read_file(snapshot() / "model.safetensors"), hub_.files["model.safetensors"]);
}

TEST_F(HubTest, LeftoverOfOtherDataIsFoundAndRemoved) {
  const std::string sha = test::digest_hex(EVP_sha256(), hub_.files["model.safetensors"]);
  fs::create_directories(repository() / "blobs");
  std::ofstream(repository() / "blobs" / (sha + ".incomplete")) << std::string(1234, 'x');
  EXPECT_EQ(failure("damaged on the way"), ErrorCode::kBadInput);
  fetch();
  EXPECT_EQ(read_file(snapshot() / "model.safetensors"), hub_.files["model.safetensors"]);
}

TEST_F(HubTest, DamagedDataNeverGetsItsName) {
  hub_.damage = true;
  EXPECT_EQ(failure("checksum"), ErrorCode::kBadInput);
  EXPECT_EQ(leftovers(), 0);
  for (const auto& entry : fs::directory_iterator(repository() / "blobs")) FAIL() << entry.path();
}

TEST_F(HubTest, BusyServersAreAskedAgain) {
  hub_.busy = 3;
  fetch();
  hub_.busy = 1000;
  EXPECT_EQ(failure("answers 503 after 5 attempts"), ErrorCode::kSystem);
}

TEST_F(HubTest, Access) {
  hub_.token = "hf_secret";
  EXPECT_EQ(failure("set a token"), ErrorCode::kBadInput);
  options_.token = "wrong";
  EXPECT_EQ(failure("does not open it"), ErrorCode::kBadInput);
  options_.token = "hf_secret";
  fetch();
  hub_.gated = true;
  EXPECT_EQ(failure("accept the model's terms"), ErrorCode::kBadInput);
}

TEST_F(HubTest, NotFound) {
  EXPECT_EQ(failure("not found", "org/nothing"), ErrorCode::kBadInput);
  EXPECT_EQ(failure("not found", "org/tiny@v2"), ErrorCode::kBadInput);
  EXPECT_EQ(failure("no file 'x.gguf'", "org/tiny:x.gguf"), ErrorCode::kBadInput);
  EXPECT_EQ(failure("no hub name", "nothing"), ErrorCode::kUsage);
}

TEST_F(HubTest, OfflineAndNoNetwork) {
  options_.offline = true;
  EXPECT_EQ(failure("without HF_HUB_OFFLINE"), ErrorCode::kSystem);
  options_.offline = false;
  const fs::path folder = fetch();
  const std::size_t before = hub_.requests().size();
  options_.offline = true;
  EXPECT_EQ(fetch(), folder);
  EXPECT_EQ(hub_.requests().size(), before);
  // Not all of it here: said, not used.
  fs::remove(folder / "model.safetensors");
  EXPECT_EQ(failure("not complete"), ErrorCode::kSystem);
  options_.offline = false;
  fetch();
  hub_.stop();
  options_.attempts = 2;
  EXPECT_EQ(fetch(), folder);  // with a warning
  fs::remove_all(options_.cache);
  EXPECT_EQ(failure("check the network"), ErrorCode::kSystem);
}

TEST_F(HubTest, NamesThatLeaveTheCacheAreRefused) {
  for (const char* name : {"../evil", "/etc/passwd", "a/../../b", "a//b", "a\\\\b", "."}) {
    hub_.listing = fmt::format(
        R"({{"sha": "{}", "siblings": [{{"rfilename": "{}", "size": 1, "blobId": "{}"}}]}})",
        FakeHub::kCommit, name, FakeHub::kCommit);
    EXPECT_EQ(failure("leaves the cache"), ErrorCode::kBadInput) << name;
  }
  hub_.listing = R"({"sha": "../../x", "siblings": []})";
  EXPECT_EQ(failure("malformed commit"), ErrorCode::kBadInput);
  hub_.listing = "[1, 2";
  EXPECT_EQ(failure("the hub's answer"), ErrorCode::kBadInput);
  EXPECT_FALSE(parse_hub_name("../tiny").has_value());
  EXPECT_FALSE(parse_hub_name("org/tiny@../x").has_value());
  EXPECT_FALSE(parse_hub_name("org/tiny:../x").has_value());
  EXPECT_FALSE(parse_hub_name("a/b/c").has_value());
  const auto name = parse_hub_name("org/tiny@refs/pr/1:a/b.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->revision, "refs/pr/1");
  EXPECT_EQ(name->file, "a/b.gguf");
}

TEST_F(HubTest, TooLargeForTheDisk) {
  hub_.listing = fmt::format(
      R"({{"sha": "{}", "siblings": [{{"rfilename": "model.safetensors", "size": {},
          "blobId": "{}"}}]}})",
      FakeHub::kCommit, std::uint64_t{1} << 60, FakeHub::kCommit);
  EXPECT_EQ(failure("GB free in"), ErrorCode::kSystem);
  EXPECT_EQ(hub_.count("resolve"), 0);
}

TEST_F(HubTest, Gguf) {
  hub_.files = {{"README.md", ""}, {"tiny-q4.gguf", noise(3000, 6)}};
  EXPECT_EQ(fetch(), snapshot() / "tiny-q4.gguf");
  hub_.files["tiny-q8.gguf"] = noise(3000, 7);
  EXPECT_EQ(failure("org/tiny:tiny-q8.gguf"), ErrorCode::kUsage);
  EXPECT_EQ(fetch("org/tiny:tiny-q8.gguf"), snapshot() / "tiny-q8.gguf");
  hub_.files = {{"big-00001-of-00002.gguf", noise(3000, 8)},
                {"big-00002-of-00002.gguf", noise(3000, 9)}};
  EXPECT_EQ(fetch(), snapshot() / "big-00001-of-00002.gguf");
  EXPECT_TRUE(fs::exists(snapshot() / "big-00002-of-00002.gguf"));
}

TEST_F(HubTest, MetaFolder) {
  hub_.files = {{"params.json", "{}"},
                {"tokenizer.model", "t"},
                {"consolidated.00.pth", noise(3000, 1)},
                {"consolidated.01.pth", noise(3000, 2)}};
  EXPECT_EQ(fetch(), snapshot());
  EXPECT_TRUE(fs::exists(snapshot() / "consolidated.01.pth"));
  EXPECT_TRUE(fs::exists(snapshot() / "params.json"));
}

TEST_F(HubTest, TwoAtOnce) {
  hub_.files["model.safetensors"] = noise(3000000, 11);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { EXPECT_EQ(fetch(), snapshot()); });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(read_file(snapshot() / "model.safetensors"), hub_.files["model.safetensors"]);
  EXPECT_EQ(hub_.count("/model.safetensors"), 1);
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(HubTest, StoppingKeepsWhatIsThere) {
  hub_.files["model.safetensors"] = noise(3000000, 12);
  try {
    fetch_from_hub("org/tiny", options_,
                   [](const HubProgress& p) { return p.file_bytes < 1000000; });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
  fetch();
  EXPECT_EQ(read_file(snapshot() / "model.safetensors"), hub_.files["model.safetensors"]);
  EXPECT_EQ(hub_.count("model.safetensors bytes="), 1);
}

TEST_F(HubTest, HttpsWithACertificateThatIsTrusted) {
  const test::TlsServer tls;
  FakeHub secure(&tls);
  secure.files = hub_.files;
  secure.token = "hf_secret";
  secure.cut = 100000;
  options_.endpoint = secure.endpoint();
  options_.token = "hf_secret";
  EXPECT_EQ(failure("SSL_CERT_FILE"), ErrorCode::kSystem);
  EXPECT_EQ(secure.requests().size(), 0u) << "nobody who is not trusted sees the token";
  options_.certificates = root_ / "authority.pem";
  EXPECT_EQ(failure("authority.pem"), ErrorCode::kSystem) << "a file that is not there";
  std::ofstream(root_ / "authority.pem") << tls.certificate();
  fetch();
  EXPECT_EQ(read_file(snapshot() / "model.safetensors"), hub_.files["model.safetensors"]);
  EXPECT_EQ(secure.count("model.safetensors bytes=100000-"), 1) << "resumed";
}

// An exception of the caller's progress comes out as it is, though libcurl is in between.
TEST_F(HubTest, WhatProgressThrowsComesOut) {
  for (const std::uint64_t after : {0, 1, 150000}) {
    try {
      fetch_from_hub("org/tiny", options_, [&](const HubProgress& p) -> bool {
        if (p.bytes >= after) fail(ErrorCode::kInterrupted, "[test] at {}", after);
        return true;
      });
      ADD_FAILURE() << after;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
      EXPECT_EQ(error.message(), fmt::format("[test] at {}", after));
    }
  }
  fetch();
  EXPECT_EQ(read_file(snapshot() / "model.safetensors"), hub_.files["model.safetensors"]);
}

// Ctrl-C is heard while the hub says nothing, and between two attempts.
TEST_F(HubTest, WaitingCanBeStopped) {
  hub_.retry_after_s = 60;
  for (const bool silent : {true, false}) {
    hub_.silent = silent;
    hub_.busy = silent ? 0 : 1000;
    const auto start = std::chrono::steady_clock::now();
    try {
      fetch_from_hub("org/tiny", options_, [&](const HubProgress&) {
        return std::chrono::steady_clock::now() - start < std::chrono::milliseconds(300);
      });
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInterrupted) << error.message();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

// A process that may write nowhere, whoever runs the test.
class WithoutRights {
 public:
  WithoutRights() : was_root_(::geteuid() == 0) {
    if (was_root_) must(::seteuid(kNobody));
  }
  ~WithoutRights() {
    if (was_root_) must(::seteuid(0));
  }

 private:
  static void must(int result) { EXPECT_EQ(result, 0); }
  static constexpr uid_t kNobody = 65534;
  bool was_root_;
};

TEST_F(HubTest, ReadOnlyCaches) {
  fs::create_directories(options_.cache);
  const auto read_only = [&](const fs::path& path) {
    fs::permissions(path, fs::perms::all & ~(fs::perms::owner_write | fs::perms::group_write |
                                             fs::perms::others_write));
  };
  fs::permissions(root_, fs::perms::all);
  read_only(options_.cache);
  {
    const WithoutRights nobody;
    EXPECT_EQ(failure("Permission denied"), ErrorCode::kSystem);
  }
  fs::permissions(options_.cache, fs::perms::all);
  const fs::path folder = fetch();
  std::vector<fs::path> folders = {options_.cache};
  for (const auto& entry : fs::recursive_directory_iterator(options_.cache))
    if (entry.is_directory() && !entry.is_symlink()) folders.push_back(entry.path());
  for (const fs::path& path : folders) read_only(path);
  {
    const WithoutRights nobody;  // everything is there: it is used
    EXPECT_EQ(fetch(), folder);
  }
  for (const fs::path& path : folders) fs::permissions(path, fs::perms::all);
}

TEST(HubOptions, Environment) {
  ::setenv("HF_HOME", "/tmp/ingot-hf-home", 1);
  ::setenv("HF_ENDPOINT", "https://mirror.example/", 1);
  ::setenv("HF_HUB_OFFLINE", "yes", 1);
  ::setenv("HF_TOKEN", " t \n", 1);
  for (const char* name : {"HF_HUB_CACHE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"})
    ::unsetenv(name);
  const HubOptions options = HubOptions::from_environment();
  EXPECT_EQ(options.cache, "/tmp/ingot-hf-home/hub");
  EXPECT_EQ(options.endpoint, "https://mirror.example");
  EXPECT_EQ(options.token, "t");
  EXPECT_TRUE(options.offline);
  EXPECT_EQ(options.certificates, "");
  ::setenv("SSL_CERT_FILE", "/tmp/a.pem", 1);
  EXPECT_EQ(HubOptions::from_environment().certificates, "/tmp/a.pem");
  ::setenv("CURL_CA_BUNDLE", "/tmp/b.pem", 1);
  EXPECT_EQ(HubOptions::from_environment().certificates, "/tmp/b.pem");
  for (const char* name :
       {"HF_HOME", "HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_TOKEN", "SSL_CERT_FILE", "CURL_CA_BUNDLE"})
    ::unsetenv(name);
}

}  // namespace
}  // namespace ingot
