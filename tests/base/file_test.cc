#include "base/file.h"

#include "base/error.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace ingot {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct File : testing::Test {
  File() {
    std::string name = (fs::temp_directory_path() / "ingot-file-XXXXXX").string();
    folder = ::mkdtemp(name.data());
  }
  ~File() override {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
  template <typename F>
  void expect_error(ErrorCode code, std::string_view part, F&& f) {
    try {
      f();
      ADD_FAILURE() << "no error; wanted " << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.message();
      EXPECT_THAT(e.message(), HasSubstr(std::string(part)));
    }
  }
  fs::path folder;
};

TEST_F(File, AtomicFileAppearsOnlyWhenCommitted) {
  const fs::path path = folder / "out";
  {
    AtomicFile file(path);
    file.write("abc");
    EXPECT_FALSE(fs::exists(path));
    file.commit();
  }
  EXPECT_EQ(read_file(path), "abc");
  EXPECT_EQ(entries(), 1u);
  {
    AtomicFile file(path);
    file.write("never");
  }
  EXPECT_EQ(read_file(path), "abc") << "without commit the old file stays";
  EXPECT_EQ(entries(), 1u) << "and nothing is left beside it";
}

TEST_F(File, AtomicFileThatBrokeOffLeavesWhatWasWritten) {
  const fs::path path = folder / "answers";
  std::ofstream(path) << "old";
  {
    AtomicFile file(path);
    file.write("half");
    EXPECT_EQ(file.commit_partial(), folder / "answers.partial");
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(read_file(folder / "answers.partial"), "half");
  // Also when it was the name that could not be given.
  const fs::path late = folder / "late";
  AtomicFile file(late);
  file.write("whole");
  fs::create_directories(late);
  expect_error(ErrorCode::kSystem, "late", [&] { file.commit(); });
  EXPECT_EQ(read_file(file.commit_partial()), "whole");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 4);
}

TEST_F(File, AtomicFileThatIsShownWhileItIsWritten) {
  const fs::path path = folder / "answers", partial = folder / "answers.partial";
  std::ofstream(partial) << "of an earlier run";
  {
    AtomicFile file(path);
    file.show_partial();
    EXPECT_EQ(read_file(partial), "");
    file.write("half");
    file.update();
    EXPECT_EQ(read_file(partial), "half");
    EXPECT_FALSE(fs::exists(path));
    file.commit();
  }
  EXPECT_EQ(read_file(path), "half");
  EXPECT_EQ(entries(), 1u);
  AtomicFile(path).show_partial();
  EXPECT_EQ(entries(), 1u) << "neither commit";
  AtomicFile file(path);
  file.show_partial();
  fs::remove(partial);
  expect_error(ErrorCode::kSystem, "answers.partial", [&] { file.update(); });
  std::ofstream(partial) << "another's";
  expect_error(ErrorCode::kSystem, "replaced", [&] { file.commit(); });
  EXPECT_EQ(read_file(path), "half");
}

TEST_F(File, AtomicFileKeepsTheOrderOfSmallAndLargeWrites) {
  const fs::path path = folder / "out";
  const std::string large(3 << 20, 'L');
  AtomicFile file(path);
  file.write("head");
  file.write(large);
  file.pad_to(4096);
  EXPECT_EQ(file.position() % 4096, 0u);
  file.write("tail");
  file.pad_to(1);
  const std::string mark = "MARK";
  file.write_at(0, std::as_bytes(std::span(mark.data(), mark.size())));
  EXPECT_THROW(file.write_at(file.position() - 3, std::as_bytes(std::span(mark))), Error);
  const std::uint64_t end = file.position();
  file.commit();
  const std::string content = read_file(path);
  ASSERT_EQ(content.size(), end);
  EXPECT_EQ(content.substr(0, 5), "MARKL");
  EXPECT_EQ(content.substr(4, large.size()), large);
  EXPECT_EQ(content.substr(content.size() - 4), "tail");
  EXPECT_EQ(content[content.size() - 5], '\0');
}

TEST_F(File, FullDiskIsOneErrorAndLeavesNothing) {
  // A limit on the size of files stands for a full disk: the same failing write.
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 64 << 10;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const fs::path path = folder / "engine";
  expect_error(ErrorCode::kSystem, path.string(), [&] {
    AtomicFile file(path);
    file.write(std::string(8 << 20, 'x'));
    file.commit();
  });
  expect_error(ErrorCode::kSystem, "[file.write]", [&] {
    AtomicFile file(path);
    for (int i = 0; i < 100; ++i) file.write(std::string(1000, 'x'));  // gathered, fails in commit
    file.commit();
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(entries(), 0u);
}

// Killed, not unwound: the file system drops what has no name.
TEST_F(File, NothingIsLeftOfAKilledWriter) {
  const int probe = ::open(folder.c_str(), O_RDWR | O_TMPFILE, 0600);
  if (probe < 0) GTEST_SKIP() << folder << " is on a file system without nameless files";
  ::close(probe);
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(folder / "engine");
    file.write(std::string(3 << 20, 'x'));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(entries(), 0u);
}

TEST_F(File, OfALinkTheTargetIsWritten) {
  std::ofstream(folder / "target") << "old";
  fs::create_symlink("target", folder / "link");
  fs::create_symlink(folder / "link", folder / "second");
  AtomicFile file(folder / "second");
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(folder / "link") && fs::is_symlink(folder / "second"));
  EXPECT_EQ(read_file(folder / "target"), "new");
  fs::create_symlink("loop", folder / "loop");
  expect_error(ErrorCode::kSystem, "symbolic links", [&] { AtomicFile(folder / "loop"); });
}

// Where standard output is a file, "/dev/stdout" is a link to it; neither may be replaced.
TEST_F(File, StandardOutputIsWrittenWhereItStands) {
  const fs::path path = folder / "redirected";
  const int to = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  const int before = ::dup(STDOUT_FILENO);
  std::fflush(stdout);
  ASSERT_EQ(::write(to, "head ", 5), 5);
  ::dup2(to, STDOUT_FILENO);
  {
    AtomicFile file("/dev/stdout");
    file.write("body");
    file.commit();
  }
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  EXPECT_EQ(read_file(path), "head body");
  EXPECT_EQ(::lseek(to, 0, SEEK_CUR), 9) << "the same file, not a new one of its name";
  ::close(to);
  EXPECT_EQ(entries(), 1u);
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  AtomicFile file("/proc/self/fd/" + std::to_string(pipe[1]));
  file.write("abc");
  expect_error(ErrorCode::kSystem, "cannot go back",
               [&] { file.write_at(0, std::as_bytes(std::span("x", 1))); });
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(File, UnwritablePlacesAreNamed) {
  expect_error(ErrorCode::kSystem, "No such file", [&] { AtomicFile(folder / "no" / "file"); });
  std::ofstream(folder / "plain") << "x";
  expect_error(ErrorCode::kSystem, "Not a directory", [&] { AtomicFile(folder / "plain" / "f"); });
  expect_error(ErrorCode::kSystem, "[file.create]", [&] { AtomicFile("/proc/ingot-no-such"); });
  fs::create_directory(folder / "target");
  std::ofstream(folder / "target" / "inside") << "x";
  expect_error(ErrorCode::kSystem, "Is a directory", [&] { AtomicFile(folder / "target"); });
  expect_error(ErrorCode::kUsage, "empty", [&] { AtomicFile(""); });
  EXPECT_EQ(entries(), 2u);
  if (::geteuid() == 0) return;  // root may write anywhere
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  expect_error(ErrorCode::kSystem, "Permission denied", [&] { AtomicFile(folder / "f"); });
  fs::permissions(folder, fs::perms::owner_all);
}

TEST_F(File, MappingSurvivesReplacement) {
  const fs::path path = folder / "weights";
  std::ofstream(path) << "old";
  MappedFile mapped(path);
  {
    AtomicFile file(path);
    file.write("new content");
    file.commit();
  }
  EXPECT_EQ(mapped.text(), "old");
  fs::remove(path);
  EXPECT_EQ(mapped.text(), "old");
  MappedFile moved = std::move(mapped);
  EXPECT_EQ(moved.text(), "old");
  EXPECT_EQ(mapped.size(), 0u);  // NOLINT: moved from
  moved = MappedFile();
  EXPECT_EQ(moved.size(), 0u);
}

TEST_F(File, OddFilesAreNamed) {
  std::ofstream(folder / "empty");
  EXPECT_EQ(MappedFile(folder / "empty").size(), 0u);
  expect_error(ErrorCode::kSystem, "No such file", [&] { MappedFile(folder / "absent"); });
  expect_error(ErrorCode::kBadInput, "regular", [&] { MappedFile{folder}; });
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);  // with nobody at its other end
  expect_error(ErrorCode::kBadInput, "regular", [&] { MappedFile{folder / "pipe"}; });
  expect_error(ErrorCode::kSystem, "No such file", [&] { read_file(folder / "absent"); });
  expect_error(ErrorCode::kSystem, "directory", [&] { read_file(folder); });
  std::ofstream(folder / "ten") << "0123456789";
  EXPECT_EQ(read_file(folder / "ten", 10), "0123456789");
  expect_error(ErrorCode::kBadInput, "larger than 9", [&] { read_file(folder / "ten", 9); });
}

}  // namespace
}  // namespace ingot
