// The command on every level of instructions: those of this processor by INGOT_CPU, older
// processors under an emulator, where one wrong instruction ends the process.
#include "base/file.h"
#include "base/json.h"
#include "formats/npy.h"

#include <gtest/gtest.h>

#include "tests/cli/command.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

namespace fs = std::filesystem;

const fs::path kModel = fs::path(INGOT_FIXTURES) / "models" / "llama";

// The frozen logits, exactly in float32 and closely in the level's own arithmetic.
void expect_logits(const CommandInput& on, std::size_t tokens, const std::string& model = kModel,
                   const std::vector<const char*>& modes = {"f32", "native"}) {
  const WorkFolder work;
  const NpyArray wanted = read_npy(kModel / "logits.npy");
  const auto columns = static_cast<std::size_t>(wanted.shape[1]);
  std::string ids;
  const Json prompt = parse_json(read_file(kModel / "tokens.json"), "tokens.json").at("prompt");
  for (std::size_t i = 0; i < tokens; ++i) ids += (i ? "," : "") + prompt.at(i).dump();
  for (const char* compute : modes) {
    const std::string out = work / "logits.npy";
    const CommandResult r = work.run({"logits", model, "--device", "cpu", "--threads", "2",
                                      "--compute", compute, "--tokens", ids, "-o", out},
                                     on);
    ASSERT_EQ(r.exit_code, 0) << r.err;
    const NpyArray got = read_npy(out);
    const auto a = got.as<float>(), b = wanted.as<float>().first(tokens * columns);
    ASSERT_EQ(a.size(), b.size());
    double ab = 0, aa = 0, bb = 0, worst = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      ab += double{a[i]} * b[i];
      aa += double{a[i]} * a[i];
      bb += double{b[i]} * b[i];
      worst = std::max(worst, std::isfinite(a[i]) ? std::abs(double{a[i]} - b[i]) : INFINITY);
    }
    EXPECT_GT(ab / std::sqrt(aa * bb), 0.999) << compute;
    if (compute == std::string("f32")) {
      EXPECT_LT(worst, 1e-4);
    }
  }
}

std::string tier_of(const CommandInput& on) {
  const WorkFolder work;
  const CommandResult r = work.run({"devices", "--json"}, on);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  return parse_json(r.out, "devices").at("cpu").at("tier").get<std::string>();
}

TEST(ProcessorsTest, EveryLevelOfThisProcessor) {
  const WorkFolder work;
  const Json cpu = parse_json(work.run({"devices", "--json"}).out, "devices --json").at("cpu");
  ASSERT_GE(cpu.at("tiers").size(), 1U);
  for (const Json& tier : cpu.at("tiers")) {
    SCOPED_TRACE(tier.get<std::string>());
    CommandInput on;
    on.environment = {"INGOT_CPU=" + tier.get<std::string>()};
    EXPECT_EQ(tier_of(on), tier);
    expect_logits(on, 37);
  }
  CommandInput wrong;
  wrong.environment = {"INGOT_CPU=sse9"};
  EXPECT_EQ(work.run({"run", kModel, "-p", "a"}, wrong).exit_code, 2);
}

// An engine that one level built, as others on older processors find it.
TEST(ProcessorsTest, AnEngineAnswersOnEveryLevel) {
  const WorkFolder work;
  const std::string engine = work / "model.ingot";
  ASSERT_EQ(work.run({"build", kModel, "--target", "cpu", "-o", engine}).exit_code, 0);
  const Json cpu = parse_json(work.run({"devices", "--json"}).out, "devices --json").at("cpu");
  for (const Json& tier : cpu.at("tiers")) {
    SCOPED_TRACE(tier.get<std::string>());
    CommandInput on;
    on.environment = {"INGOT_CPU=" + tier.get<std::string>()};
    expect_logits(on, 37, engine, {"native"});
  }
}

struct Processor {
  const char* name;
  const char* tier;
};
class OldProcessorsTest : public testing::TestWithParam<Processor> {};

TEST_P(OldProcessorsTest, AnswersTheSame) {
  if (std::system("command -v qemu-x86_64 > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "qemu-x86_64 is not here";
  CommandInput on;
  on.prefix = {"qemu-x86_64", "-cpu", GetParam().name};
  EXPECT_EQ(tier_of(on), GetParam().tier);
  expect_logits(on, 5);
}

INSTANTIATE_TEST_SUITE_P(Emulated, OldProcessorsTest,
                         testing::Values(Processor{"Nehalem", "generic"},
                                         Processor{"SandyBridge", "generic"},
                                         Processor{"Haswell", "avx2"},
                                         Processor{"Skylake-Client", "avx2"}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace ingot
