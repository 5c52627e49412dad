// Engines are untrusted bytes: whatever is in a plan, it is refused with one clear error or runs
// inside its buffers (which AddressSanitizer and the references' own checks would tell).
#include "base/error.h"
#include "base/file.h"
#include "cpu/device.h"
#include "ops/ops.h"
#include "plan/plan.h"

#include <gtest/gtest.h>

#include "tests/ops/reference_device.h"
#include "tests/plan/tiny_engine.h"
#include "tests/runtime/small_step.h"
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

const std::vector<Json>& intruders() {
  static const std::vector<Json> values = {0,
                                           -1,
                                           1,
                                           64,
                                           4096,
                                           INT64_MAX,
                                           UINT64_MAX,
                                           1e30,
                                           "x",
                                           nullptr,
                                           true,
                                           0.5,
                                           Json::array(),
                                           "i8",
                                           "f16",
                                           320,
                                           Json::object()};
  return values;
}

// Visits every change of a document: each value in turn replaced by each intruder, each member
// left out, each element left out and doubled.
class Changes {
 public:
  Changes(Json& root, std::function<void(const std::string& what)> visit)
      : visit_(std::move(visit)) {
    walk(root, "");
  }

 private:
  void with(Json& node, Json value, const std::string& what) {
    std::swap(node, value);
    visit_(what);
    std::swap(node, value);
  }

  void walk(Json& node, const std::string& path) {
    for (const Json& value : intruders())
      if (value != node) with(node, value, path + " = " + dump_json(value));
    if (node.is_object()) {
      std::vector<std::string> keys;
      for (const auto& [key, value] : node.items()) keys.push_back(key);
      for (const std::string& key : keys) {
        Json less = node;
        less.erase(key);
        with(node, std::move(less), path + " without " + key);
        walk(node[key], path + "/" + key);
      }
    } else if (node.is_array()) {
      for (std::size_t i = 0; i < node.size(); ++i) {
        const std::string at = path + "/" + std::to_string(i);
        const auto offset = static_cast<std::ptrdiff_t>(i);
        Json less = node, more = node;
        less.erase(less.begin() + offset);
        more.insert(more.begin() + offset, node[i]);
        with(node, std::move(less), "without " + at);
        with(node, std::move(more), at + " twice");
        walk(node[i], at);
      }
    }
  }

  std::function<void(const std::string&)> visit_;
};

struct NamedDevice {
  const char* name;
  std::unique_ptr<Device> (*make)();
};

class HostilePlanTest : public testing::TestWithParam<NamedDevice> {
 protected:
  HostilePlanTest() : tiny_(INGOT_FIXTURES, {.device = GetParam().make()}) {}

  // Whether it was believed.
  bool believed(const Json& plan_json, const Json& info_json) {
    try {
      const EngineInfo info = engine_info_from_json(info_json);
      const Plan plan = plan_from_json(plan_json, all_ops());
      check_agreement(info, plan, all_ops());
      try {
        test::run_small_step(plan, *tiny_.device, tiny_.weight_bytes());
      } catch (const Error& e) {
        // Smaller limits than this step needs, or larger than this test gives.
        if (e.code() != ErrorCode::kRequest && e.code() != ErrorCode::kDoesNotFit) throw;
      }
      return true;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
      EXPECT_NE(e.message().find("[engine."), std::string::npos) << e.message();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    return false;
  }

  test::TinyEngine tiny_;
};

TEST_P(HostilePlanTest, WhateverIsBelievedStaysInItsBuffers) {
  const Json info = to_json(tiny_.model.info);
  Json plan = to_json(tiny_.model.compiled.plan);
  ASSERT_TRUE(believed(plan, info));
  int yes = 0, no = 0;
  Changes(plan, [&](const std::string& what) {
    SCOPED_TRACE(what);
    ++(believed(plan, info) ? yes : no);
  });
  EXPECT_GT(yes, 0);
  EXPECT_GT(no, 10 * yes) << "most of a plan matters";
}

TEST_P(HostilePlanTest, DescriptionsToo) {
  const Json plan = to_json(tiny_.model.compiled.plan);
  Json info = to_json(tiny_.model.info);
  int yes = 0, no = 0;
  Changes(info, [&](const std::string& what) {
    SCOPED_TRACE(what);
    ++(believed(plan, info) ? yes : no);
  });
  EXPECT_GT(yes, 0);
  EXPECT_GT(no, yes);
}

// A fuzzer that starts from engines which nobody believes learns nothing of what comes after.
TEST(EngineSeedsTest, AreBelieved) {
  const std::filesystem::path folder =
      std::filesystem::path(INGOT_FIXTURES).parent_path() / "fuzz" / "corpus" / "engine_file";
  int seeds = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string() + "; tests/plan/engine_seeds_tool.cc writes it anew");
    const std::string text = read_file(entry.path());
    const Json manifest = parse_json(text.substr(0, text.find('\n')), "seed");
    const EngineInfo info = engine_info_from_json(manifest.at("info"));
    const Plan plan = plan_from_json(manifest.at("plan"), all_ops());
    check_agreement(info, plan, all_ops());
    const auto device = make_reference_device();
    const std::vector<std::byte> weights(plan.weight_bytes());
    EXPECT_FALSE(test::run_small_step(plan, *device, weights).empty());
    ++seeds;
  }
  EXPECT_GE(seeds, 2);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, HostilePlanTest,
    testing::Values(NamedDevice{"Reference", [] { return make_reference_device(); }},
                    NamedDevice{"Cpu", [] { return make_cpu_device({.threads = 1}); }}),
    [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace ingot
