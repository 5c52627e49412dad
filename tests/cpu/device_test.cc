#include "cpu/device.h"

#include "base/error.h"
#include "cpu/description.h"
#include "cpu/memory.h"
#include "cpu/packed_row.h"
#include "cpu/weight_place.h"

#include <gtest/gtest.h>

#include "tests/ops/op_driver.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

namespace ingot {
namespace {

// Every op, format and mode, on each tier that this processor has.
class CpuOps : public ::testing::TestWithParam<std::string> {};

TEST_P(CpuOps, AgreeWithTheirReferences) {
  const auto device = make_cpu_device({.threads = 2, .tier = GetParam()});
  const std::vector<OpOutcome> outcomes = check_ops(*device, {});
  EXPECT_GT(outcomes.size(), 100u);
  for (const OpOutcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.good()) << to_string(outcome);
    EXPECT_TRUE(outcome.kernel.ends_with(".reference") || outcome.kernel.ends_with(GetParam()))
        << outcome.kernel;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, CpuOps, ::testing::ValuesIn(cpu::describe_cpu().tiers),
                         [](const auto& info) { return info.param; });

TEST(CpuDevice, FastKernelsForTheOpsOfAModel) {
  const auto device = make_cpu_device({.threads = 1});
  for (const OpOutcome& outcome : check_ops(*device, {.only_format = "q4_1"}))
    EXPECT_FALSE(outcome.kernel.ends_with(".reference")) << outcome.name;
}

std::vector<std::byte> random_rows(const WeightFormat& format, std::int64_t rows, std::int64_t k) {
  std::vector<std::byte> bytes(weight_bytes(format, rows, k));
  std::minstd_rand random(7);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random() >> 8);
  return bytes;
}

std::unique_ptr<Buffer> buffer_of(Device& device, std::size_t bytes) {
  return device.allocate(bytes, "a test");
}

TEST(CpuDevice, WeightsGoToTheirLayoutAndBack) {
  const auto device = make_cpu_device({.threads = 2});
  const WeightUse linear{"linear", 1};
  const WeightUse embed{"embed", 1};
  const WeightUse both[] = {embed, linear};
  for (const WeightFormat* format : weight_formats()) {
    const Shape shape{70, 512};
    const std::vector<std::byte> rows = random_rows(*format, 70, 512);
    const WeightLayout layout = device->weight_layout(*format, shape, both);
    const auto packed = buffer_of(*device, layout.bytes);
    const std::span<std::byte> there(packed->data(), layout.bytes);
    device->pack_weight(layout, *format, shape, rows, there);
    std::vector<std::byte> back(rows.size());
    device->unpack_weight(layout, *format, shape, there, back);
    EXPECT_EQ(rows, back) << format->name;
    if (layout.name != cpu::kPanelLayout) continue;
    const cpu::PackedWeight weight{cpu::find_packed_format(format->name), 70, 512, there.data()};
    const std::size_t row_bytes = format->row_bytes(512);
    std::vector<std::byte> row(row_bytes);
    for (const std::int64_t i : {0, 31, 32, 69}) {
      cpu::unpack_row(weight, i, row.data());
      EXPECT_EQ(
          std::memcmp(row.data(), rows.data() + static_cast<std::size_t>(i) * row_bytes, row_bytes),
          0)
          << format->name << " row " << i;
    }
    EXPECT_THROW(device->pack_weight(layout, *format, shape, rows, there.subspan(1)), Error);
  }
}

TEST(CpuDevice, TablesThatOnlyEmbedReadsAndVectorsStayRows) {
  const auto device = make_cpu_device({.threads = 1});
  const WeightUse embed[] = {{"embed", 1}};
  const WeightUse norm[] = {{"rms_norm", 1}};
  const WeightUse bias[] = {{"linear", 2}};
  EXPECT_EQ(device->weight_layout(weight_format("bf16"), {64, 32}, embed).name, "row_major");
  EXPECT_EQ(device->weight_layout(weight_format("f32"), {64}, norm).name, "row_major");
  EXPECT_EQ(device->weight_layout(weight_format("f32"), {64}, bias).bytes, 256u);
}

TEST(CpuDevice, ALayoutOfAnotherDeviceIsRefused) {
  const auto device = make_cpu_device({.threads = 1});
  const std::vector<std::byte> rows(64 * 32 * 4);
  std::vector<std::byte> packed(rows.size());
  try {
    device->pack_weight({"sm_90_tiles", rows.size()}, weight_format("f32"), {64, 32}, rows, packed);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_NE(error.message().find("sm_90_tiles"), std::string::npos);
  }
}

TEST(CpuDevice, WeightsAreReadWhereTheyAreMapped) {
  const auto device = make_cpu_device({.threads = 1});
  const std::vector<std::byte> mapped(1000);
  std::size_t done = 0;
  const auto placed = device->place_weights(mapped, [&](std::size_t bytes) { done = bytes; });
  EXPECT_EQ(placed->data(), mapped.data());
  EXPECT_EQ(done, mapped.size());
}

TEST(CpuDevice, AllocatesZeroedAlignedMemory) {
  const auto device = make_cpu_device({.threads = 1});
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1000}, std::size_t{5} << 20}) {
    const auto buffer = device->allocate(bytes, "a test");
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->data()) % 256, 0u);
    for (std::size_t i = 0; i < bytes; i += 999) ASSERT_EQ(buffer->data()[i], std::byte{0});
    if (bytes > 0) std::memset(buffer->data(), 1, bytes);
  }
  try {
    device->allocate(std::size_t{1} << 50, "the KV cache");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDoesNotFit);
    EXPECT_NE(error.message().find("the KV cache"), std::string::npos);
  }
}

TEST(CpuDevice, KvPagesOfAnyShapeAreCounted) {
  const auto device = make_cpu_device({.threads = 1});
  const StateSpec spec{.kv_heads = 3, .head_dim = 64, .dtype = DType::kBF16};
  EXPECT_EQ(device->page_bytes(spec, 64), 64u * 2 * 3 * 64 * 2);
  EXPECT_EQ(device->kv_dtype(ComputeMode::kNative), DType::kBF16);
  EXPECT_EQ(device->kv_dtype(ComputeMode::kF32), DType::kF32);
  StateSpec other = spec;
  for (const DType dtype : {DType::kI8, DType::kE4M3}) {  // an f32 scale for every K and V
    other.dtype = dtype;
    EXPECT_EQ(device->page_bytes(other, 64), 64u * 2 * 3 * (64 + 4));
    EXPECT_EQ(device->page_bytes(other, 64), 64u * state_token_bytes(other));
  }
  other.head_dim = 33;  // K in pairs
  EXPECT_EQ(device->page_bytes(other, 64), 64u * 3 * (34 + 33 + 8));
  for (const DType dtype : {DType::kE5M2, DType::kF16, DType::kU8}) {
    other.dtype = dtype;
    EXPECT_THROW(device->page_bytes(other, 64), Error);
  }
  EXPECT_THROW(device->page_bytes(spec, 10), Error);
}

TEST(CpuDevice, AnUnknownTierIsAUsageError) {
  try {
    make_cpu_device({.tier = "sse9"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(error.message().find("avx512_vnni"), std::string::npos);
  }
}

// A machine under a folder of its own.
class FakeMachine {
 public:
  FakeMachine() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ingot_cpu_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }
  std::string root() const { return root_.string() + "/"; }
  void file(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void core(int cpu, int socket, int core) const {
    const std::string base = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    file(base + "physical_package_id", std::to_string(socket) + "\n");
    file(base + "core_id", std::to_string(core) + "\n");
  }

 private:
  std::filesystem::path root_;
};

// Two sockets whose CPUs are numbered in turn, two threads a core, CPU 5 offline.
TEST(CpuDescription, ReadsSocketsCoresAndNodes) {
  const FakeMachine machine;
  machine.file("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU 9000\nflags\t: fpu\n");
  machine.file("sys/devices/system/cpu/online", "0-4,6-7\n");
  for (const int cpu : {0, 1, 2, 3, 4, 6, 7}) machine.core(cpu, cpu % 2, cpu / 2 % 2);
  machine.file("sys/devices/system/node/online", "0-1\n");
  machine.file("sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
  machine.file("sys/devices/system/node/node1/cpulist", "1,3,7\n");
  machine.file("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const cpu::CpuDescription cpu = cpu::describe_cpu(machine.root());
  EXPECT_EQ(cpu.model, "Some CPU 9000");
  EXPECT_EQ(cpu.online, 7);
  EXPECT_EQ(cpu.cores, 4);
  EXPECT_EQ(cpu.sockets, 2);
  EXPECT_DOUBLE_EQ(cpu.quota, 1.5);
  ASSERT_EQ(cpu.nodes.size(), 2u);
  EXPECT_EQ(cpu.nodes[1].cpus, (std::vector<int>{1, 3, 7}));
  EXPECT_EQ(cpu.tiers.front(), "generic");
  EXPECT_FALSE(cpu.reason.empty());
}

TEST(CpuDescription, AnEmptyMachineStillHasACore) {
  const FakeMachine machine;
  const cpu::CpuDescription cpu = cpu::describe_cpu(machine.root());
  EXPECT_EQ(cpu.cores, 1);
  EXPECT_EQ(cpu.sockets, 1);
  EXPECT_EQ(cpu.quota, 0);
}

TEST(CpuDescription, ParsesListsOfCpus) {
  EXPECT_EQ(cpu::parse_cpu_list("0-2,8,10-11"), (std::vector<int>{0, 1, 2, 8, 10, 11}));
  EXPECT_TRUE(cpu::parse_cpu_list("").empty());
  EXPECT_TRUE(cpu::parse_cpu_list("x").empty());
  EXPECT_EQ(cpu::parse_cpu_list("3,5-2"), (std::vector<int>{3}));
  EXPECT_TRUE(cpu::parse_cpu_list("0-99999999").empty());
}

TEST(CpuMemory, TheControlGroupsLimitCounts) {
  const FakeMachine machine;
  machine.file("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\n");
  EXPECT_EQ(cpu::memory_info(machine.root()).free, 600u * 1024);
  machine.file("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(cpu::memory_info(machine.root()).total, 1000u * 1024);
  machine.file("sys/fs/cgroup/memory.max", "512000\n");
  machine.file("sys/fs/cgroup/memory.current", "500000\n");
  EXPECT_EQ(cpu::memory_info(machine.root()).total, 512000u);
  EXPECT_EQ(cpu::memory_info(machine.root()).free, 12000u);
}

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * 4096;
}

// A cap is kept to the byte only if sizes that are no multiple of a huge page cost what they say.
TEST(CpuMemory, TakesNoMoreThanItWasAskedFor) {
  for (const std::size_t kib : {1100, 2068, 3000}) {
    const std::size_t bytes = kib << 10;
    for (const bool present : {true, false}) {
      std::vector<std::unique_ptr<Buffer>> buffers;
      const std::size_t before = resident_bytes();
      constexpr std::size_t kCount = 32;
      for (std::size_t i = 0; i < kCount; ++i) {
        buffers.push_back(cpu::allocate_pages(bytes, "a test", present));
        std::memset(buffers.back()->data(), 1, bytes);
      }
      const std::size_t taken = resident_bytes() - before;
      EXPECT_GE(taken, kCount * bytes / 100 * 99) << kib;
      EXPECT_LE(taken, kCount * bytes / 100 * 101 + (1 << 20)) << kib;
    }
  }
}

// Run by OldProcessors below under an emulator; here it checks the processor at hand.
TEST(CpuOldProcessor, RunsAtTheLevelThereIs) {
  if (const char* wanted = std::getenv("INGOT_EXPECT_TIER")) {
    EXPECT_EQ(cpu::describe_cpu().tier, wanted);
  }
  const auto device = make_cpu_device({.threads = 2});
  for (const char* name : {"attention", "rope_kv_append", "add_rms_norm", "swiglu"})
    for (const OpOutcome& outcome : check_ops(*device, {.only_op = name}))
      EXPECT_TRUE(outcome.good()) << to_string(outcome);
  for (const OpOutcome& outcome :
       check_ops(*device, {.only_op = "linear", .only_case = "two", .only_format = "q4_1"}))
    EXPECT_TRUE(outcome.good()) << to_string(outcome);
}

struct OldProcessor {
  const char* name;
  const char* tier;
};
class OldProcessors : public ::testing::TestWithParam<OldProcessor> {};

// One wrong instruction ends the emulated process.
TEST_P(OldProcessors, RunWithoutIllegalInstructions) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers do not run under the emulator";
#endif
  if (std::system("command -v qemu-x86_64 > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "qemu-x86_64 is not here";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = std::string("INGOT_EXPECT_TIER=") + GetParam().tier +
                              " timeout 300 qemu-x86_64 -cpu " + GetParam().name + " '" + self +
                              "' --gtest_filter=CpuOldProcessor.* > /dev/null 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}
INSTANTIATE_TEST_SUITE_P(Emulated, OldProcessors,
                         ::testing::Values(OldProcessor{"Nehalem", "generic"},
                                           OldProcessor{"SandyBridge", "generic"},
                                           OldProcessor{"Haswell", "avx2"},
                                           OldProcessor{"Skylake-Client", "avx2"}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace ingot
