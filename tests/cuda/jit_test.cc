#include "cuda/jit.h"

#include "base/error.h"
#include "base/file.h"
#include "cuda/nvrtc_api.h"
#include "cuda/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ingot::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const KernelSource kCast = {
    .stem = "cast", .defines = {{"X_TYPE", "f32"}, {"OUT_TYPE", "bf16"}}, .included = {}};

class JitTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("jit_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    options_ = {.cache_folder = folder_,
                .on_compiled = [this](const CompiledKernel& kernel) { seen_.push_back(kernel); }};
  }
  void TearDown() override { fs::remove_all(folder_); }
  void need_nvrtc() const {
    if (!nvrtc_api()) GTEST_SKIP() << nvrtc_api().error().message();
  }

  fs::path folder_;
  JitOptions options_;
  std::vector<CompiledKernel> seen_;
};

TEST(ResourceUse, ReadFromTheAssemblersReport) {
  const ResourceUse use = parse_resource_use(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas         .     48 bytes stack frame, 20 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 2560 bytes smem\n");
  EXPECT_EQ(use.registers, 168);
  EXPECT_EQ(use.shared_bytes, 2560);
  EXPECT_EQ(use.stack_bytes, 48);
  EXPECT_EQ(use.spill_bytes, 32);
}

TEST(CacheFile, RoundTripAndDamage) {
  const CompiledKernel kernel{"sm_90a/cast-0.cubin", "machine code", {16, 256, 0, 0}};
  const std::string bytes = encode_cache_file(kernel);
  const auto read = decode_cache_file(bytes, kernel.name);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->cubin, kernel.cubin);
  EXPECT_EQ(read->use.registers, 16);
  EXPECT_EQ(read->use.shared_bytes, 256);
  EXPECT_FALSE(decode_cache_file(bytes, "sm_90a/cast-1.cubin"));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_cache_file(std::string_view(bytes).substr(0, length), kernel.name));
  EXPECT_FALSE(decode_cache_file(bytes + "x", kernel.name));
  // Every bit of what is checked: magic, name, size, checksum, cubin.
  const std::size_t use_begin = 8;
  const std::size_t use_end = use_begin + sizeof(ResourceUse);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= use_begin && i < use_end) continue;
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 4);
    EXPECT_FALSE(decode_cache_file(flipped, kernel.name)) << "byte " << i;
  }
}

TEST(Sources, ClosureFollowsIncludes) {
  const std::string header = "cuda/device/weight_q4_1.cuh";
  const auto closure = source_closure("cuda/kernels/linear.cu", std::vector{header});
  std::vector<std::string_view> names;
  for (const DeviceSource* source : closure) names.push_back(source->name);
  EXPECT_EQ(names.front(), "cuda/kernels/linear.cu");
  EXPECT_THAT(names, testing::IsSupersetOf({"cuda/device/launch.cuh", "cuda/device/reduce.cuh",
                                            "cuda/device/float.cuh", "cuda/device/quant_bytes.cuh",
                                            "cuda/device/weight_q4_1.cuh"}));
  EXPECT_EQ(find_device_source("cuda/device/none.cuh"), nullptr);
}

TEST_F(JitTest, ContentNameFollowsEverythingThatDecidesTheCode) {
  const Jit jit("sm_90a", options_);
  const std::string name = jit.content_name(kCast);
  EXPECT_THAT(name, testing::MatchesRegex("sm_90a/cast-[0-9a-f]{32}\\.cubin"));
  EXPECT_EQ(jit.content_name(kCast), name);
  KernelSource other = kCast;
  other.defines[1].second = "f16";
  EXPECT_NE(jit.content_name(other), name);
  KernelSource included = kCast;
  included.included.push_back("cuda/device/reduce.cuh");
  EXPECT_NE(jit.content_name(included), name);
  EXPECT_NE(Jit("sm_80", options_).content_name(kCast), name);
}

TEST_F(JitTest, StoredCodeNeedsNoCompiler) {
  // An architecture that no compiler knows: only the store can answer.
  const Jit jit("sm_77", options_);
  CodeStore code;
  code.put(jit.content_name(kCast), "stored");
  EXPECT_EQ(jit.compile(kCast, code), "stored");
  EXPECT_TRUE(seen_.empty());
}

TEST_F(JitTest, CompilesThenReadsTheCache) {
  need_nvrtc();
  const Jit jit("sm_90a", options_);
  CodeStore code;
  const std::string cubin = jit.compile(kCast, code);
  EXPECT_EQ(cubin.substr(0, 4),
            "\x7f"
            "ELF");
  ASSERT_EQ(seen_.size(), 1u);
  EXPECT_GT(seen_[0].use.registers, 0);
  EXPECT_EQ(seen_[0].use.stack_bytes + seen_[0].use.spill_bytes, 0);
  ASSERT_NE(code.find(jit.content_name(kCast)), nullptr);

  // A marked cubin in the cache shows that it is read: nothing is compiled again.
  const fs::path file = folder_ / jit.content_name(kCast);
  ASSERT_TRUE(fs::exists(file));
  CompiledKernel marked{jit.content_name(kCast), "marked", {}};
  std::ofstream(file, std::ios::binary) << encode_cache_file(marked);
  CodeStore second;
  EXPECT_EQ(jit.compile(kCast, second), "marked");

  // A torn file is compiled anew and replaced.
  fs::resize_file(file, fs::file_size(file) - 1);
  CodeStore third;
  EXPECT_EQ(jit.compile(kCast, third), cubin);
  EXPECT_TRUE(decode_cache_file(read_file(file), jit.content_name(kCast)).has_value());
  // Nothing half-written stays beside it.
  EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()), 1);
}

TEST_F(JitTest, NoCacheAlwaysCompilesAndWritesNothing) {
  need_nvrtc();
  options_.use_cache = false;
  const Jit jit("sm_80", options_);
  CodeStore code;
  const std::string cubin = jit.compile(kCast, code);
  EXPECT_FALSE(fs::exists(folder_));
  CodeStore second;
  EXPECT_EQ(jit.compile(kCast, second), cubin);  // the same bytes: compiling is deterministic
  ASSERT_EQ(seen_.size(), 2u);
  EXPECT_GT(seen_[1].use.registers, 0) << "a cache hit has no log";
}

TEST_F(JitTest, UnwritableCacheCostsNoAnswer) {
  need_nvrtc();
  std::ofstream(folder_) << "a file where the folder should be";
  const Jit jit("sm_80", options_);
  CodeStore code;
  EXPECT_EQ(jit.compile(kCast, code).substr(0, 4),
            "\x7f"
            "ELF");
}

TEST_F(JitTest, ErrorsNameKernelArchitectureAndLog) {
  need_nvrtc();
  CodeStore code;
  try {
    Jit("sm_77", options_).compile(kCast, code);
    FAIL() << "sm_77 does not exist";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kDevice);
    EXPECT_THAT(e.message(), HasSubstr("sm_77"));
    EXPECT_THAT(e.message(), HasSubstr("pip install"));
  }
  KernelSource broken = kCast;
  broken.defines[0].second = "no_such_type";
  try {
    Jit("sm_80", options_).compile(broken, code);
    FAIL() << "the type does not exist";
  } catch (const Error& e) {
    EXPECT_THAT(e.message(), HasSubstr("cuda/kernels/cast.cu"));
    EXPECT_THAT(e.message(), HasSubstr("no_such_type"));
  }
}

}  // namespace
}  // namespace ingot::cuda
