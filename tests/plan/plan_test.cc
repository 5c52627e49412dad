#include "plan/plan.h"

#include "base/error.h"
#include "cpu/device.h"
#include "ops/ops.h"
#include "passes/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/plan/tiny_engine.h"
#include "tests/runtime/small_step.h"
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

class PlanTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    tiny_ = new test::TinyEngine(INGOT_FIXTURES);
    json_ = new Json(to_json(tiny_->model.compiled.plan));
  }
  static void TearDownTestSuite() {
    delete json_;
    delete tiny_;
  }

  static std::string refusal_of(const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
      EXPECT_NE(e.message().find("[engine."), std::string::npos) << e.message();
      return e.message();
    }
    return {};
  }

  // The message with which the edited plan is refused; "" when it is not.
  static std::string refusal(const std::function<void(Json&)>& edit) {
    Json changed = *json_;
    edit(changed);
    return refusal_of([&] { plan_from_json(changed, all_ops()); });
  }

  // The first step with this op.
  static Json& step(Json& plan, std::string_view op) {
    for (Json& s : plan.at("steps"))
      if (s.at("op").get<std::string>().starts_with(op)) return s;
    throw std::runtime_error("no such step");
  }

  static const BuiltModel& model() { return tiny_->model; }

  static test::TinyEngine* tiny_;
  static Json* json_;
};

test::TinyEngine* PlanTest::tiny_ = nullptr;
Json* PlanTest::json_ = nullptr;

TEST_F(PlanTest, RoundTripsThroughJson) {
  const Plan plan = plan_from_json(*json_, all_ops());
  EXPECT_EQ(to_json(plan), *json_);
  EXPECT_EQ(plan.steps.size(), model().compiled.plan.steps.size());
  EXPECT_EQ(plan.logits.type, model().compiled.plan.logits.type);
  EXPECT_NO_THROW(check_agreement(model().info, plan, all_ops()));
  EXPECT_EQ(test::run_small_step(plan, *tiny_->device, tiny_->weight_bytes()).size(),
            3u * test::TinyEngine::kVocab);
}

TEST_F(PlanTest, RefusesPlacesOutsideTheirTables) {
  const auto first = [](Json& p) -> Json& { return step(p, "embed").at("results")[0]; };
  for (const Json& at : {Json(-64), Json(-1), Json(4), json_->at("arena_bytes"), Json(INT64_MAX),
                         Json(UINT64_MAX), Json(1e30), Json("0"), Json(nullptr), Json(true)})
    EXPECT_NE(refusal([&](Json& p) { first(p)["at"] = at; }), "") << at;
  for (const Json& at : {Json(-64), json_->at("arena_bytes"), Json(UINT64_MAX)}) {
    EXPECT_NE(refusal([&](Json& p) { p["logits"]["at"] = at; }), "") << at;
    EXPECT_NE(refusal([&](Json& p) { p["inputs"][0]["operand"]["at"] = at; }), "") << at;
  }
  for (const Json& at : {Json(-1), Json(1000), Json(UINT64_MAX)}) {
    EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["operands"][1]["at"] = at; }), "") << at;
    EXPECT_NE(refusal([&](Json& p) { step(p, "attention")["operands"][4]["at"] = at; }), "") << at;
  }
  EXPECT_NE(refusal([&](Json& p) { first(p)["in"] = "weight"; }), "");
  EXPECT_NE(refusal([&](Json& p) { first(p)["in"] = "elsewhere"; }), "");
  for (const Json& at : {Json(-1), Json(1000)})
    EXPECT_NE(refusal([&](Json& p) { p["head_begin"] = at; }), "") << at;
}

TEST_F(PlanTest, RefusesTypesThatTheOpDoesNotMake) {
  const auto result = [](Json& p) -> Json& { return step(p, "linear")["results"][0]["type"]; };
  EXPECT_NE(refusal([&](Json& p) { result(p)["dims"][1] = 8; }), "");
  EXPECT_NE(refusal([&](Json& p) { result(p)["dims"][0] = 1; }), "");
  EXPECT_NE(refusal([&](Json& p) { result(p)["dtype"] = "i8"; }), "");
  EXPECT_NE(refusal([&](Json& p) { result(p)["dtype"] = "f31"; }), "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["results"] = Json::array(); }), "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["operands"].erase(0); }), "");
  EXPECT_NE(refusal([&](Json& p) {
              Json& o = step(p, "linear")["operands"];
              o.push_back(o[0]);
            }),
            "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["op"] = "explode"; }), "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["attrs"].erase("bias"); }), "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["attrs"]["bias"] = 1; }), "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["attrs"]["more"] = 1; }), "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "attention")["attrs"]["kv_heads"] = 0; }), "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "attention")["attrs"]["heads"] = INT64_MAX; }), "");
  EXPECT_NE(refusal([&](Json& p) { p["logits"]["type"]["dims"].erase(1); }), "");
  EXPECT_NE(refusal([&](Json& p) { p["logits"]["type"]["dtype"] = "i32"; }), "");
  EXPECT_NE(refusal([&](Json& p) { p["logits"]["type"]["dims"][0] = 1; }), "");
}

TEST_F(PlanTest, RefusesIndicesThatAreNotTheStepsOwn) {
  // Token ids taken from where an activation lies.
  EXPECT_NE(refusal([](Json& p) {
              step(p, "embed")["operands"][0]["at"] = step(p, "embed")["results"][0]["at"];
            }),
            "");
  // Slots taken for token ids: large enough numbers of the right type.
  EXPECT_NE(refusal([](Json& p) {
              for (const Json& i : p["inputs"])
                if (i["name"] == "slots")
                  step(p, "embed")["operands"][0]["at"] = i["operand"]["at"];
            }),
            "");
  // A result that overwrites an input that a later step follows.
  EXPECT_NE(refusal([](Json& p) {
              for (const Json& i : p["inputs"])
                if (i["name"] == "block_table")
                  step(p, "embed")["results"][0]["at"] = i["operand"]["at"];
            }),
            "");
  EXPECT_NE(
      refusal([](Json& p) { p["inputs"][0]["operand"]["at"] = p["inputs"][1]["operand"]["at"]; }),
      "");
  EXPECT_NE(refusal([](Json& p) { p["inputs"][0]["name"] = "wishes"; }), "");
  EXPECT_NE(refusal([](Json& p) { p["inputs"][0]["operand"]["type"]["dtype"] = "f32"; }), "");
  EXPECT_NE(refusal([](Json& p) { p["inputs"].erase(0); }), "");
  // A table with fewer rows than there are tokens.
  EXPECT_NE(refusal([](Json& p) {
              Json& operand = step(p, "embed")["operands"][1];
              operand["type"]["dims"][0] = 16;
              p["weights"][operand["at"].get<std::size_t>()]["shape"][0] = 16;
            }),
            "");
}

TEST_F(PlanTest, RefusesStepsThatHarmEachOther) {
  const auto results = [](Json& p, std::string_view op) -> Json& { return step(p, op)["results"]; };
  // What was never written, written as another type, or written over since.
  EXPECT_NE(refusal([](Json& p) { p["steps"].erase(0); }), "");
  EXPECT_NE(refusal([](Json& p) { std::swap(p["steps"][1], p["steps"][2]); }), "");
  const auto moved = [&](Json& p, std::int64_t qkv_behind) {
    const std::int64_t residual = p["arena_bytes"].get<std::int64_t>();
    p["arena_bytes"] = residual + (1 << 16);
    results(p, "embed")[0]["at"] = residual;
    step(p, "rms_norm")["operands"][0]["at"] = residual;
    for (Json& s : p["steps"])
      if (s["op"] == "linear" && s["operands"].size() == 3) {
        s["operands"][2]["at"] = residual;
        break;
      }
    results(p, "linear")[0]["at"] = residual + qkv_behind;
    step(p, "rope_kv_append")["operands"][0]["at"] = residual + qkv_behind;
  };
  EXPECT_EQ(refusal([&](Json& p) { moved(p, 1 << 15); }), "");
  EXPECT_THAT(refusal([&](Json& p) { moved(p, 64); }), testing::HasSubstr("no step before it"));
  // A matmul that writes where it reads.
  EXPECT_NE(refusal([&](Json& p) {
              results(p, "linear")[0]["at"] = step(p, "linear")["operands"][0]["at"];
            }),
            "");
  // Rows that are not there before the head.
  EXPECT_NE(refusal([](Json& p) { p["head_begin"] = p["steps"].size(); }), "");
  // A head that spoils what it needs for the next slice of rows.
  EXPECT_NE(refusal([&](Json& p) {
              results(p, "gather_rows")[0]["at"] = step(p, "gather_rows")["operands"][0]["at"];
            }),
            "");
  EXPECT_NE(refusal([](Json& p) { p["logits"]["at"] = step(p, "embed")["results"][0]["at"]; }), "");
}

TEST_F(PlanTest, RefusesOperandsThatAreNotWhatTheirTablesSay) {
  const auto state = [](Json& p) -> Json& { return step(p, "attention")["operands"][4]; };
  EXPECT_NE(refusal([&](Json& p) { state(p)["type"]["dtype"] = "f32"; }), "");
  for (const char* dtype : {"i32", "bool", "u8", "e5m2", "i64"})
    EXPECT_NE(refusal([&](Json& p) { p["states"][0]["spec"]["dtype"] = dtype; }), "") << dtype;
  EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["operands"][1]["type"]["dtype"] = "i8"; }),
            "");
  EXPECT_NE(refusal([&](Json& p) { step(p, "linear")["operands"][1]["type"]["format"] = "q8_0"; }),
            "");
}

TEST_F(PlanTest, RefusesAbsurdSizes) {
  for (const Json& bound : {Json(0), Json(-1), Json(std::int64_t{1} << 40), Json(UINT64_MAX)})
    for (const char* symbol : {"T", "S", "R", "P"})
      EXPECT_NE(refusal([&](Json& p) { p["max"][symbol] = bound; }), "") << symbol << bound;
  EXPECT_NE(refusal([](Json& p) { p["max"]["T"] = 1; }), "") << "fewer tokens than sequences";
  EXPECT_NE(refusal([](Json& p) { p["compute"] = "f16"; }), "");
  EXPECT_NE(refusal([](Json& p) { p["arena_bytes"] = UINT64_MAX; }), "");
  EXPECT_NE(refusal([](Json& p) { p["arena_bytes"] = 64; }), "");
  EXPECT_NE(refusal([](Json& p) { p["page_tokens"] = 0; }), "");
  for (const Json& n : {Json(0), Json(-1), Json(std::int64_t{1} << 40)}) {
    EXPECT_NE(refusal([&](Json& p) { p["states"][0]["spec"]["kv_heads"] = n; }), "") << n;
    EXPECT_NE(refusal([&](Json& p) { p["states"][0]["spec"]["head_dim"] = n; }), "") << n;
  }
  const auto weight = [](Json& p) -> Json& { return p["weights"][1]; };
  const std::int64_t large = std::int64_t{1} << 40;
  for (const Json& shape : {Json({large, large}), Json({-1, 64}), Json({0, 64}), Json::array(),
                            Json({1, 1, 1, 1, 1}), Json({1.5, 2}), Json("2"), Json(nullptr)})
    EXPECT_NE(refusal([&](Json& p) { weight(p)["shape"] = shape; }), "") << shape;
  for (const Json& offset : {Json(0), Json(1), Json(UINT64_MAX), Json(UINT64_MAX - 4095)})
    EXPECT_NE(refusal([&](Json& p) { weight(p)["offset"] = offset; }), "") << offset;
  EXPECT_NE(refusal([&](Json& p) { weight(p)["bytes"] = UINT64_MAX; }), "");
  EXPECT_NE(refusal([&](Json& p) { weight(p)["format"] = "q99"; }), "");
  EXPECT_NE(refusal([&](Json& p) { std::swap(p["weights"][0], p["weights"][1]); }), "");
  for (const Json& dim : {Json({"T", -1, 0}), Json({"T", 1, -8}), Json({"T", INT64_MAX, 0}),
                          Json({"Q", 1, 0}), Json({"T"}), Json(-1), Json(INT64_MAX), Json("T")})
    EXPECT_NE(refusal([&](Json& p) { step(p, "embed")["results"][0]["type"]["dims"][0] = dim; }),
              "")
        << dim;
}

// Larger than the plan's buffers, or nothing at all: refused, and the executor goes on.
TEST_F(PlanTest, StepsLargerThanThePlanAreRefused) {
  Plan plan = model().compiled.plan;
  plan.max[Symbol::kTokens] = 3;
  Executor executor(plan, *tiny_->device, tiny_->weight_bytes(),
                    prepare_kernels(plan, *tiny_->device, {}), {.kv_pages = 4, .progress = {}});
  const Batch fits = test::small_step(plan);
  const auto refused = [&](const std::function<void(Batch&)>& edit) {
    Batch batch = fits;
    edit(batch);
    try {
      executor.run(batch, {});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kRequest) << e.message();
      EXPECT_NE(e.message().find("built for 1 to 3, 2 and"), std::string::npos) << e.message();
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused([](Batch&) {}));
  EXPECT_TRUE(refused([](Batch& b) { b = {}; }));
  EXPECT_TRUE(refused([](Batch& b) { b.pages = 1000; }));
  EXPECT_TRUE(refused([](Batch& b) {
    for (auto* per_token : {&b.ids, &b.positions, &b.slots, &b.rope_row}) per_token->push_back(0);
    b.query_start.back() += 1;
  }));
  EXPECT_TRUE(refused([](Batch& b) {
    b.query_start.push_back(3);
    b.context_len.push_back(1);
    static constexpr std::int32_t kTable[] = {3, 2, 0};
    b.block_table = kTable;
  }));
  EXPECT_FALSE(refused([](Batch&) {}));
}

// Each pass alone and all of them: the plan is believed and computes the same.
TEST_F(PlanTest, PassesLeftOutChangeNothing) {
  std::vector<std::vector<std::string>> skips = {{}, {}};
  for (const Pass& pass : pipeline()) {
    skips.push_back({std::string(pass.name)});
    skips[1].emplace_back(pass.name);
  }
  std::vector<float> wanted;
  const auto expect_the_same = [&](test::TinyEngine& tiny) {
    Plan plan = plan_from_json(to_json(tiny.model.compiled.plan), all_ops());
    check_agreement(tiny.model.info, plan, all_ops());
    for (const std::int64_t slice : {16, 2}) {  // 3 rows are wanted
      plan.max[Symbol::kRows] = std::min(plan.max[Symbol::kRows], slice);
      const std::vector<float> logits =
          test::run_small_step(plan, *tiny.device, tiny.weight_bytes());
      ASSERT_EQ(logits.size(), 3u * test::TinyEngine::kVocab);
      if (wanted.empty()) wanted = logits;
      for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], wanted[i], 1e-5) << i;
    }
  };
  for (const std::vector<std::string>& skip : skips)
    for (const bool cpu : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(skip) + (cpu ? " on the CPU" : " by reference"));
      test::TinyEngine tiny(INGOT_FIXTURES,
                            {.device = cpu ? make_cpu_device({.threads = 1}) : nullptr,
                             .mode = ComputeMode::kF32,
                             .skip_passes = skip});
      expect_the_same(tiny);
    }
  EXPECT_GT(*std::max_element(wanted.begin(), wanted.end()), 1e-3);
}

TEST_F(PlanTest, RefusesMissingFields) {
  for (const auto& [key, value] : json_->items())
    EXPECT_NE(refusal([&, k = key](Json& p) { p.erase(k); }), "") << key;
  for (const char* list : {"weights", "inputs", "states", "steps"})
    for (const auto& [key, value] : json_->at(list)[0].items())
      EXPECT_NE(refusal([&, k = key](Json& p) { p[list][0].erase(k); }), "") << list << key;
  for (const Json& other : {Json(nullptr), Json("plan"), Json(7), Json::array(), Json::object()})
    EXPECT_NE(refusal([&](Json& p) { p = other; }), "");
}

TEST_F(PlanTest, TheDeviceWantsItsOwnLayouts) {
  const auto refused = [](const std::function<void(Plan&)>& edit) {
    Plan plan = model().compiled.plan;
    edit(plan);
    return refusal_of([&] { prepare_kernels(plan, *tiny_->device, {}); }) != "";
  };
  EXPECT_FALSE(refused([](Plan&) {}));
  EXPECT_TRUE(refused([](Plan& p) { p.weights.back().bytes -= 64; }));
  EXPECT_TRUE(refused([](Plan& p) { p.weights[1].layout += "x"; }));
  EXPECT_TRUE(refused([](Plan& p) { p.page_tokens *= 2; }));
}

TEST_F(PlanTest, DescriptionAndPlanMustAgree) {
  const auto refused = [](const std::function<void(EngineInfo&)>& edit) {
    EngineInfo info = model().info;
    edit(info);
    return refusal_of([&] { check_agreement(info, model().compiled.plan, all_ops()); }) != "";
  };
  EXPECT_FALSE(refused([](EngineInfo&) {}));
  EXPECT_TRUE(refused([](EngineInfo& i) { i.vocab += 1; }));
  EXPECT_TRUE(refused([](EngineInfo& i) { i.max_seq = 1 << 20; }));
  EXPECT_TRUE(refused([](EngineInfo& i) { i.max_batch += 1; }));
  EXPECT_TRUE(refused([](EngineInfo& i) { i.rope_long_from = 8; }));
}

TEST_F(PlanTest, DescriptionsRoundTripAndRefuseNonsense) {
  const Json json = to_json(model().info);
  EXPECT_EQ(to_json(engine_info_from_json(json)), json);
  const auto refused = [&](const char* key, const Json& value) {
    Json changed = json;
    changed[key] = value;
    return refusal_of([&] { engine_info_from_json(changed); }) != "";
  };
  for (const char* key : {"vocab", "max_seq", "max_batch"})
    for (const Json& value : {Json(0), Json(-1), Json(UINT64_MAX), Json(1e30), Json("9"),
                              Json(nullptr), Json(std::int64_t{1} << 40)})
      EXPECT_TRUE(refused(key, value)) << key << value;
  for (const Json& ids : {Json({-1}), Json({1e30}), Json({std::int64_t{1} << 32}), Json({"a"})})
    EXPECT_TRUE(refused("end_ids", ids)) << ids;
  EXPECT_TRUE(refused("bos_id", std::int64_t{1} << 32));
  for (const Json& formats : {Json(3), Json({{"f32"}}), Json({{"f32", 1e30}}), Json({{"f32", -1}}),
                              Json({{1, 2}}), Json(nullptr)})
    EXPECT_TRUE(refused("weight_formats", formats)) << formats;
  EXPECT_TRUE(refused("generation", 3));
  for (const auto& [key, value] : json.items()) {
    if (key == "bos_id" || key == "eos_id") continue;
    Json changed = json;
    changed.erase(key);
    EXPECT_NE(refusal_of([&] { engine_info_from_json(changed); }), "") << key;
  }
}

}  // namespace
}  // namespace ingot
