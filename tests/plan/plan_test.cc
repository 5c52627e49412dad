#include "plan/plan.h"

#include "base/error.h"
#include "builder/build_engine.h"
#include "ops/ops.h"
#include "runtime/executor.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include "tests/ops/reference_device.h"
#include <functional>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

// The plan of a real model of one layer, fused as far as it goes, on the device whose kernels
// check.
class PlanTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    test::EditedCheckpoint edited(std::string(INGOT_FIXTURES) + "/models/llama");
    edited.config()["num_hidden_layers"] = 1;
    std::erase_if(edited.tensors,
                  [](const auto& t) { return t.first.find("layers.1.") != std::string::npos; });
    const Checkpoint c = open_checkpoint(edited.save());
    device_ = make_reference_device().release();
    model_ = new BuiltModel(compile_checkpoint(c, *device_, {.max_batch = 2, .max_tokens = 8}));
    json_ = new Json(to_json(model_->compiled.plan));
  }
  static void TearDownTestSuite() {
    delete json_;
    delete model_;
    delete device_;
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

  // One step of two sequences on a plan that was believed: whatever it computes, it must not leave
  // its buffers (what AddressSanitizer and the kernels' own checks would see).
  static void run(const Plan& plan) {
    constexpr std::uint64_t kSmall = 16 << 20;
    if (plan.arena_bytes > kSmall || plan.weight_bytes() > kSmall) return;
    PreparedKernels kernels = prepare_kernels(plan, *device_, {});
    if (kernels.workspace_bytes > kSmall) return;
    // Shared and aligned as a mapping is.
    auto weights = device_->allocate(plan.weight_bytes(), "weights");
    Executor executor(plan, *device_, {weights->data(), weights->bytes()}, std::move(kernels),
                      {.kv_pages = 4, .progress = {}});
    const auto page = static_cast<std::int32_t>(plan.page_tokens);
    const Batch batch{.ids = {319, 0, 5},
                      .positions = {0, 1, 0},
                      .slots = {3 * page, 3 * page + 1, 2 * page},
                      .rope_row = {0, 0, 0},
                      .query_start = {0, 2, 3},
                      .context_len = {2, 1},
                      .block_table = {3, 2},
                      .pages = 1,
                      .rows = {1, 2}};
    executor.run(batch, [](std::int64_t, std::int64_t, std::span<const float>) {});
  }

  static Device* device_;
  static BuiltModel* model_;
  static Json* json_;
};

Device* PlanTest::device_ = nullptr;
BuiltModel* PlanTest::model_ = nullptr;
Json* PlanTest::json_ = nullptr;

TEST_F(PlanTest, RoundTripsThroughJson) {
  const Plan plan = plan_from_json(*json_, all_ops());
  EXPECT_EQ(to_json(plan), *json_);
  EXPECT_EQ(plan.steps.size(), model_->compiled.plan.steps.size());
  EXPECT_EQ(plan.logits.type, model_->compiled.plan.logits.type);
  EXPECT_NO_THROW(check_agreement(model_->info, plan, all_ops()));
  run(plan);
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

TEST_F(PlanTest, RefusesAbsurdSizes) {
  for (const Json& bound : {Json(0), Json(-1), Json(std::int64_t{1} << 40), Json(UINT64_MAX)})
    for (const char* symbol : {"T", "S", "R", "P"})
      EXPECT_NE(refusal([&](Json& p) { p["max"][symbol] = bound; }), "") << symbol << bound;
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

TEST_F(PlanTest, RefusesMissingFields) {
  for (const auto& [key, value] : json_->items())
    EXPECT_NE(refusal([&, k = key](Json& p) { p.erase(k); }), "") << key;
  for (const char* list : {"weights", "inputs", "states", "steps"})
    for (const auto& [key, value] : json_->at(list)[0].items())
      EXPECT_NE(refusal([&, k = key](Json& p) { p[list][0].erase(k); }), "") << list << key;
  for (const Json& other : {Json(nullptr), Json("plan"), Json(7), Json::array(), Json::object()})
    EXPECT_NE(refusal([&](Json& p) { p = other; }), "");
}

// Every value of the plan in turn becomes each of many others; what is believed must run.
TEST_F(PlanTest, TheDeviceWantsItsOwnLayouts) {
  const auto refused = [](const std::function<void(Plan&)>& edit) {
    Plan plan = model_->compiled.plan;
    edit(plan);
    return refusal_of([&] { prepare_kernels(plan, *device_, {}); }) != "";
  };
  EXPECT_FALSE(refused([](Plan&) {}));
  EXPECT_TRUE(refused([](Plan& p) { p.weights.back().bytes -= 64; }));
  EXPECT_TRUE(refused([](Plan& p) { p.weights[1].layout += "x"; }));
  EXPECT_TRUE(refused([](Plan& p) { p.page_tokens *= 2; }));
}

TEST_F(PlanTest, DescriptionAndPlanMustAgree) {
  const auto refused = [](const std::function<void(EngineInfo&)>& edit) {
    EngineInfo info = model_->info;
    edit(info);
    return refusal_of([&] { check_agreement(info, model_->compiled.plan, all_ops()); }) != "";
  };
  EXPECT_FALSE(refused([](EngineInfo&) {}));
  EXPECT_TRUE(refused([](EngineInfo& i) { i.vocab += 1; }));
  EXPECT_TRUE(refused([](EngineInfo& i) { i.max_seq = 1 << 20; }));
  EXPECT_TRUE(refused([](EngineInfo& i) { i.rope_long_from = 8; }));
}

TEST_F(PlanTest, DescriptionsRoundTripAndRefuseNonsense) {
  const Json json = to_json(model_->info);
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
  EXPECT_TRUE(refused("weight_formats", 3));
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
