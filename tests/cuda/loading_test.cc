// What is said when a library is missing or too old, and where NVRTC is looked for.
#include "base/error.h"
#include "cuda/device.h"
#include "cuda/driver_api.h"
#include "cuda/nvrtc_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ingot::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Sets a variable for one test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (had_)
      setenv(name_, old_.c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

fs::path scratch_folder(const std::string& name) {
  const fs::path folder = fs::path(testing::TempDir()) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "not a library";
}

std::size_t place_of(const std::vector<std::string>& list, const std::string& wanted) {
  return static_cast<std::size_t>(std::find(list.begin(), list.end(), wanted) - list.begin());
}

TEST(Driver, MissingLibraryIsNamed) {
  const auto api = load_driver_api("libcuda_that_is_not_here.so.1");
  ASSERT_FALSE(api.ok());
  EXPECT_EQ(api.error().code(), ErrorCode::kDevice);
  EXPECT_THAT(api.error().message(), HasSubstr("libcuda_that_is_not_here.so.1"));
  EXPECT_THAT(api.error().message(), HasSubstr("NVIDIA's driver"));
}

TEST(Driver, LibraryWithoutTheEntryPointIsTooOld) {
  const auto api = load_driver_api("libc.so.6");
  ASSERT_FALSE(api.ok());
  EXPECT_THAT(api.error().message(), HasSubstr("cuGetProcAddress_v2"));
  EXPECT_THAT(api.error().message(), HasSubstr("update"));
}

TEST(Nvrtc, MissNamesTheCommandThatBringsIt) {
  const auto api = find_nvrtc({"/nowhere/libnvrtc.so.13", "libnvrtc_not_here.so.13"});
  ASSERT_FALSE(api.ok());
  EXPECT_THAT(api.error().message(), HasSubstr("pip install nvidia-cuda-nvrtc"));
  EXPECT_THAT(api.error().message(), HasSubstr("/nowhere/libnvrtc.so.13"));
}

TEST(Nvrtc, BrokenLibraryIsPassedOver) {
  const fs::path folder = scratch_folder("broken_nvrtc");
  touch(folder / "libnvrtc.so.13");
  const auto api = open_nvrtc((folder / "libnvrtc.so.13").string());
  ASSERT_FALSE(api.ok());
  EXPECT_THAT(api.error().message(), HasSubstr("libnvrtc.so.13"));
  const auto other = open_nvrtc("libc.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_THAT(other.error().message(), HasSubstr("lacks nvrtcGetErrorString"));
}

TEST(Nvrtc, SearchOrder) {
  const fs::path root = scratch_folder("nvrtc_order");
  const fs::path toolkit = root / "toolkit" / "lib64" / "libnvrtc.so.12";
  const fs::path old_wheel =
      root / "env/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
  const fs::path wheel = root / "env/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13";
  const fs::path beside =
      root / "other/lib/python3.13/site-packages/nvidia/cu13/lib/libnvrtc.so.13";
  for (const fs::path& path : {toolkit, old_wheel, wheel, beside}) touch(path);
  touch(root / "other/bin/python3");
  const ScopedVariable cuda("INGOT_CUDA_PATH", (root / "toolkit").string());
  const ScopedVariable env("VIRTUAL_ENV", (root / "env").string());
  const ScopedVariable path("PATH", "/nowhere:" + (root / "other/bin").string());
  const auto list = nvrtc_candidates();
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0], toolkit.string());
  EXPECT_LT(place_of(list, toolkit), place_of(list, "libnvrtc.so.13"));
  EXPECT_LT(place_of(list, "libnvrtc.so.13"), place_of(list, wheel));
  EXPECT_LT(place_of(list, wheel), place_of(list, old_wheel));
  EXPECT_LT(place_of(list, old_wheel), place_of(list, beside));
  ASSERT_LT(place_of(list, beside), list.size());
  // A wheel unpacked into a folder is a CUDA path too.
  const ScopedVariable unpacked("INGOT_CUDA_PATH",
                                (root / "env/lib/python3.12/site-packages").string());
  EXPECT_EQ(nvrtc_candidates()[0], wheel.string());
}

TEST(Describe, SaysWhatIsHereOrWhyNot) {
  const CudaDescription description = describe_cuda();
  if (!description.driver_found) {
    EXPECT_THAT(description.driver, HasSubstr("libcuda.so.1"));
    EXPECT_TRUE(description.gpus.empty());
    EXPECT_THROW(make_cuda_device(0), Error);
  }
  const NvrtcDescription nvrtc = describe_nvrtc();
  EXPECT_THAT(nvrtc.text, HasSubstr(nvrtc.found ? "libnvrtc.so" : "pip install nvidia-cuda-nvrtc"));
}

}  // namespace
}  // namespace ingot::cuda
