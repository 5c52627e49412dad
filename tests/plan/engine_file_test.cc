#include "plan/engine_file.h"

#include "base/error.h"
#include "base/hash.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/builder/edited_checkpoint.h"
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class EngineFileTest : public testing::Test {
 protected:
  EngineFileTest() {
    EngineWriter writer(path_);
    writer.begin_blob("weights");
    for (int i = 0; i < 3; ++i) {
      writer.pad_blob_to(4096);
      EXPECT_EQ(writer.blob_position() % 4096, 0u);
      writer.append(bytes_of(std::string(5000, static_cast<char>('a' + i))));
    }
    writer.end_blob();
    writer.add_blob("tokenizer", bytes_of("words"));
    writer.add_blob("empty", {});
    writer.commit({{"info", {{"name", "tiny"}}}, {"numbers", {1, 2, 3}}});
    whole_ = read_file(path_);
  }

  // Opens the given bytes as an engine; the message when they are refused as bad input, "" when
  // they are not.
  std::string refusal(std::string_view file) {
    const fs::path path = folder_.path() / "changed.ingot";
    test::write_text(path, file);
    return refusal_of([&] { EngineFile{path}; });
  }

  static std::string refusal_of(const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
      return e.message();
    }
    return {};
  }

  // A file whose checksums are right whatever the tables say: what an attacker would write.
  std::string sealed(std::string_view manifest, std::string_view table, std::size_t blobs) const {
    std::string file = whole_.substr(0, blobs);
    const auto put = [&](std::size_t at, std::uint64_t value) {
      std::memcpy(file.data() + at, &value, sizeof value);
    };
    const std::string text = std::string(manifest) + std::string(table);
    put(16, blobs);
    put(24, manifest.size());
    put(32, table.size());
    put(40, hash64(text));
    put(48, blobs + text.size());
    put(56, hash64(std::string_view(file).substr(0, 56)));
    return file + text;
  }

  std::size_t blob_end() const {
    std::uint64_t at = 0;
    std::memcpy(&at, whole_.data() + 16, sizeof at);
    return at;
  }

  test::TemporaryFolder folder_;
  fs::path path_ = folder_.path() / "tiny.ingot";
  std::string whole_;
};

TEST_F(EngineFileTest, RoundTrip) {
  EXPECT_TRUE(EngineFile::is_engine(path_));
  const EngineFile file(path_);
  EXPECT_EQ(file.manifest().at("numbers"), Json({1, 2, 3}));
  EXPECT_EQ(file.blobs().size(), 3u);
  for (const EngineBlob& blob : file.blobs()) EXPECT_EQ(blob.offset % kBlobAlignment, 0u);
  EXPECT_EQ(text_of(file.blob("tokenizer")), "words");
  EXPECT_TRUE(file.blob("empty").empty());
  const std::string weights = text_of(file.blob("weights"));
  ASSERT_EQ(weights.size(), 2 * 8192u + 5000);
  EXPECT_EQ(weights.substr(8192, 5000), std::string(5000, 'b'));
  EXPECT_EQ(weights.substr(5000, 3192), std::string(3192, '\0'));
  EXPECT_EQ(file.find_blob("other"), nullptr);
  EXPECT_NE(refusal_of([&] { file.blob("other"); }), "");
  EXPECT_NO_THROW(file.verify_blobs());
}

TEST_F(EngineFileTest, EveryTruncationIsRefused) {
  for (std::size_t n = 0; n < whole_.size(); n += 997)
    ASSERT_NE(refusal(std::string_view(whole_).substr(0, n)), "") << n;
  ASSERT_NE(refusal(std::string_view(whole_).substr(0, whole_.size() - 1)), "");
  ASSERT_NE(refusal(whole_ + "x"), "");
}

TEST_F(EngineFileTest, EveryFlippedBitOfHeaderAndTablesIsRefused) {
  const auto flip_all = [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end; ++at)
      for (const int bit : {0, 3, 7}) {
        std::string changed = whole_;
        changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
        ASSERT_NE(refusal(changed), "") << at << " bit " << bit;
      }
  };
  flip_all(0, 64);
  flip_all(blob_end(), whole_.size());
}

TEST_F(EngineFileTest, FlippedBlobBytesAreFoundByName) {
  const EngineFile good(path_);
  for (const char* name : {"weights", "tokenizer"}) {
    const EngineBlob& blob = *good.find_blob(name);
    std::string changed = whole_;
    changed[blob.offset + blob.bytes - 1] ^= 1;
    const fs::path path = folder_.path() / "flipped.ingot";
    test::write_text(path, changed);
    const EngineFile file(path);  // opens: blobs are not read yet
    EXPECT_NE(refusal_of([&] { file.verify_blobs(); }).find(name), std::string::npos);
  }
}

TEST_F(EngineFileTest, OtherVersionsAreNamed) {
  for (const char version : {0, 2, 77}) {
    std::string changed = whole_;
    changed[8] = version;
    const std::string message = refusal(changed);
    EXPECT_NE(message.find("format " + std::to_string(version)), std::string::npos) << message;
    EXPECT_NE(message.find("reads format 1"), std::string::npos) << message;
    EXPECT_NE(message.find("build the engine again"), std::string::npos) << message;
  }
}

TEST_F(EngineFileTest, TablesThatLieAreRefused) {
  const std::size_t end = blob_end();
  EXPECT_EQ(refusal(sealed("{}", "[]", end)), "");  // the seal itself is good
  for (const char* table :
       {R"([{"name":"w","offset":0,"bytes":1e30,"checksum":1}])",
        R"([{"name":"w","offset":65536,"bytes":18446744073709551615,"checksum":1}])",
        R"([{"name":"w","offset":18446744073709486080,"bytes":131072,"checksum":1}])",
        R"([{"name":"w","offset":65537,"bytes":1,"checksum":1}])",
        R"([{"name":"w","offset":-65536,"bytes":1,"checksum":1}])",
        R"([{"name":7,"offset":0,"bytes":1,"checksum":1}])", R"([{"name":"w"}])", "[3]", "[[]]",
        R"({"a":1})", "7", "[", "", "nonsense"})
    EXPECT_NE(refusal(sealed("{}", table, end)), "") << table;
  for (const char* manifest : {"{", "", "\xff", "[1,]"})
    EXPECT_NE(refusal(sealed(manifest, "[]", end)), "") << manifest;
  std::string deep(100000, '[');
  EXPECT_NE(refusal(sealed(deep, "[]", end)), "");
}

TEST_F(EngineFileTest, AFileReplacedWhileItIsMappedDoesNoHarm) {
  const EngineFile file(path_);
  EngineWriter writer(path_);
  writer.add_blob("weights", bytes_of("other"));
  writer.commit(Json::object());
  EXPECT_EQ(file.blob("weights").size(), 2 * 8192u + 5000);
  EXPECT_NO_THROW(file.verify_blobs());
  EXPECT_EQ(text_of(EngineFile(path_).blob("weights")), "other");
}

TEST_F(EngineFileTest, WithoutCommitNothingIsLeft) {
  const fs::path path = folder_.path() / "never.ingot";
  {
    EngineWriter writer(path);
    writer.add_blob("weights", bytes_of("something"));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);  // tiny.ingot
}

// A limit on the size of files stands for a full disk: write() fails in the same way.
TEST_F(EngineFileTest, AFullDiskLeavesNothingBehind) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const fs::path path = folder_.path() / "full.ingot";
  std::string message;
  ErrorCode code = ErrorCode::kBug;
  try {
    EngineWriter writer(path);
    writer.add_blob("weights", bytes_of(std::string(3 << 20, 'w')));
    writer.commit(Json::object());
  } catch (const Error& e) {
    code = e.code();
    message = e.message();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ErrorCode::kSystem) << message;
  EXPECT_NE(message.find("full.ingot"), std::string::npos) << message;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(EngineFileTest, PlacesThatCannotHoldOne) {
  const auto code_of = [](const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::kBug;
  };
  EXPECT_EQ(code_of([&] { EngineWriter(folder_.path() / "no" / "such.ingot"); }),
            ErrorCode::kSystem);
  EXPECT_EQ(code_of([] { EngineWriter("/proc/never.ingot"); }), ErrorCode::kSystem);
  EXPECT_EQ(code_of([&] { EngineFile(folder_.path() / "absent.ingot"); }), ErrorCode::kSystem);
  EXPECT_EQ(code_of([&] { EngineFile{folder_.path()}; }), ErrorCode::kBadInput);
  EXPECT_FALSE(EngineFile::is_engine(folder_.path()));
  if (geteuid() == 0) return;  // who may write anywhere
  fs::permissions(folder_.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(code_of([&] { EngineWriter(folder_.path() / "new.ingot"); }), ErrorCode::kSystem);
  fs::permissions(folder_.path(), fs::perms::owner_all);
}

}  // namespace
}  // namespace ingot
