#include "ingot/engine.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "llm/engine_over.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include "tests/llm/random_rounds.h"
#include "tests/runtime/bigram_model.h"
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

namespace ingot {
namespace {

namespace fs = std::filesystem;
using test::BigramModel;

const fs::path kModels = fs::path(INGOT_FIXTURES) / "models";

// Steps wait until they are let go, so that a test can look at an engine in the middle.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void wait_for_arrival() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int arrived_ = 0;
};

Request request(std::int32_t token, std::int32_t max_tokens) {
  Request r;
  r.prompt = {token};
  r.sampling.temperature = 0;
  r.sampling.max_tokens = max_tokens;
  return r;
}

std::int64_t free_pages(const Engine& engine) {
  const EngineStatistics s = engine.statistics();
  return s.free_pages + s.kept_pages;
}

class EngineOverMock : public testing::Test {
 protected:
  explicit EngineOverMock() : model_({.max_seq = 64, .max_batch = 2, .kv_pages = 32}, nullptr) {
    model_.before_step = [this] { before_step(); };
  }
  std::unique_ptr<Engine> start(EngineThread::Options options = {}) {
    return EngineOver::loop(model_.loop(), std::move(options));
  }

  BigramModel model_;
  std::function<void()> before_step = [] {};
};

TEST_F(EngineOverMock, EventsComeInOrderAndEndOnce) {
  const auto engine = start();
  RequestHandle handle = engine->submit(request(7, 5)).value_or_throw();
  std::int64_t tokens = 0, last = 0;
  for (const OutputEvent& event : handle) {
    EXPECT_EQ(event.id, handle.id());
    EXPECT_EQ(event.usage.completion_tokens, ++tokens);
    last += event.last;
  }
  EXPECT_EQ(tokens, 5);
  EXPECT_EQ(last, 1);
  EXPECT_TRUE(handle.finished());
  EXPECT_FALSE(handle.next());
  EXPECT_EQ(engine->state(handle.id()).phase, Phase::kGone);
}

TEST_F(EngineOverMock, AwaitJoinsEachAnswer) {
  const auto engine = start();
  Request r = request(7, 5);
  r.sampling.n = 2;
  r.sampling.logprobs = 0;
  RequestHandle handle = engine->submit(std::move(r)).value_or_throw();
  const std::vector<OutputEvent> answers = handle.await();
  ASSERT_EQ(answers.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answers[i].index, static_cast<std::int32_t>(i));
    EXPECT_EQ(answers[i].tokens, std::vector<std::int32_t>(5, 7));
    EXPECT_EQ(answers[i].logprobs.size(), 5u);
    EXPECT_EQ(answers[i].finish, FinishReason::kLength);
  }
  EXPECT_EQ(answers[0].last + answers[1].last, 1);
}

TEST_F(EngineOverMock, RefusalsAreTypedAndCostNothing) {
  const auto engine = start();
  for (Request wrong : {Request{}, request(-1, 4), request(7, -4)}) {
    const auto refused = engine->submit(std::move(wrong));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kRequest);
  }
  EXPECT_EQ(engine->statistics().requests, 0);
  EXPECT_TRUE(engine->drain(10));
}

TEST_F(EngineOverMock, AnAnswerThatIsToldIsCounted) {
  const Engine* asked = nullptr;
  std::vector<std::int64_t> finished;
  EngineThread::Options options;
  options.on_last = [&](const OutputEvent&) { finished.push_back(asked->statistics().finished); };
  const auto engine = start(std::move(options));
  asked = engine.get();
  for (int i = 0; i < 3; ++i) engine->submit(request(7, 2)).value_or_throw().await();
  ASSERT_TRUE(engine->drain(60));
  EXPECT_EQ(finished, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST_F(EngineOverMock, AnUnreadHandleCancelsItsRequestAndFreesItsPages) {
  Gate gate;
  before_step = [&] { gate.pass(); };
  const auto engine = start();
  const std::int64_t all = engine->statistics().pages;
  {
    RequestHandle dropped = engine->submit(request(7, 50)).value_or_throw();
    gate.wait_for_arrival();
  }
  gate.open();
  ASSERT_TRUE(engine->drain(60));
  EXPECT_EQ(engine->statistics().cancelled, 1);
  EXPECT_EQ(engine->statistics().generated_tokens, 1)
      << "the step that was under way, and no other";
  EXPECT_EQ(free_pages(*engine), all);
}

TEST_F(EngineOverMock, WhyARequestWaitsCanBeAsked) {
  Gate gate;
  before_step = [&] { gate.pass(); };
  const auto engine = start();
  RequestHandle first = engine->submit(request(7, 40)).value_or_throw();
  gate.wait_for_arrival();
  std::vector<RequestHandle> others;
  for (const std::int32_t token : {8, 9, 10})
    others.push_back(engine->submit(request(token, 40)).value_or_throw());
  // Answered at the next step's end, with two of the four in a step of two.
  auto running = std::async(std::launch::async, [&] { return engine->state(first.id()); });
  auto waiting = std::async(std::launch::async, [&] { return engine->state(others[1].id()); });
  gate.open();
  EXPECT_EQ(running.get().phase, Phase::kRunning);
  RequestState state = waiting.get();
  EXPECT_EQ(state.phase, Phase::kWaiting);
  if (state.reason == WaitReason::kQueue) {  // the first of them has not started yet
    EXPECT_GT(state.ahead, 0);
  } else {
    EXPECT_TRUE(state.reason == WaitReason::kRows || state.reason == WaitReason::kBudget);
  }
}

TEST_F(EngineOverMock, ASlowReaderHoldsUpNobody) {
  const auto engine = start();
  RequestHandle slow = engine->submit(request(7, 60)).value_or_throw();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(engine->submit(request(8, 10)).value_or_throw().await().at(0).tokens.size(), 10u);
  std::int64_t events = 0;
  for ([[maybe_unused]] const OutputEvent& event : slow) ++events;
  EXPECT_EQ(events, 60) << "nothing is lost while nobody reads";
}

TEST_F(EngineOverMock, ASlowCallbackHoldsUpNoReader) {
  const auto engine = start();
  Gate gate;
  std::int64_t heard = 0;
  ASSERT_TRUE(engine->submit(request(7, 10), [&](const OutputEvent&) {
    gate.pass();
    ++heard;
  }));
  EXPECT_EQ(engine->submit(request(8, 10)).value_or_throw().await().at(0).tokens.size(), 10u);
  gate.open();
  engine->close();
  EXPECT_EQ(heard, 10) << "close() tells what is left";
}

TEST_F(EngineOverMock, ACallbackThatThrowsLosesItsRequestAlone) {
  Gate gate;
  const auto engine = start();
  std::int64_t heard = 0;
  ASSERT_TRUE(engine->submit(request(7, 60), [&](const OutputEvent&) {
    ++heard;
    throw std::runtime_error("no more");
  }));
  EXPECT_EQ(engine->submit(request(8, 10)).value_or_throw().await().at(0).tokens.size(), 10u);
  engine->close();
  EXPECT_EQ(heard, 1);
}

TEST_F(EngineOverMock, ACallbackMayUseTheEngineButNotEndIt) {
  const auto engine = start();
  std::promise<std::vector<std::int32_t>> second;
  std::promise<ErrorCode> refused;
  ASSERT_TRUE(engine->submit(request(7, 2), [&](const OutputEvent& event) {
    if (!event.last) return;
    second.set_value(engine->submit(request(8, 3)).value_or_throw().await().at(0).tokens);
    try {
      engine->close();
    } catch (const Error& e) {
      refused.set_value(e.code());
    }
  }));
  EXPECT_EQ(second.get_future().get(), std::vector<std::int32_t>(3, 8));
  EXPECT_EQ(refused.get_future().get(), ErrorCode::kUsage);
}

TEST_F(EngineOverMock, CloseEndsEveryStreamAndHandlesOutliveTheEngine) {
  Gate gate;
  before_step = [&] { gate.pass(); };
  auto engine = start();
  std::vector<RequestHandle> handles;
  for (std::int32_t token = 7; token < 12; ++token)
    handles.push_back(engine->submit(request(token, 50)).value_or_throw());
  gate.wait_for_arrival();
  std::thread closer([&] { engine.reset(); });
  gate.open();
  closer.join();
  for (RequestHandle& handle : handles) {
    const OutputEvent end = handle.await().at(0);
    EXPECT_TRUE(end.last);
    EXPECT_EQ(end.finish, FinishReason::kCancelled);
    handle.cancel();  // nobody there any more
  }
}

TEST_F(EngineOverMock, DrainLetsRequestsEndAndTakesNoMore) {
  Gate gate;
  before_step = [&] { gate.pass(); };
  const auto engine = start();
  RequestHandle handle = engine->submit(request(7, 10)).value_or_throw();
  gate.wait_for_arrival();
  EXPECT_FALSE(engine->drain(0)) << "it still runs";
  const auto refused = engine->submit(request(8, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kRequest);
  gate.open();
  EXPECT_TRUE(engine->drain(60));
  EXPECT_EQ(handle.await().at(0).finish, FinishReason::kLength);
}

TEST_F(EngineOverMock, AFailingStepFailsItsRequestsAndTheEngineGoesOn) {
  int steps = 0;
  before_step = [&] {
    if (++steps == 3) fail(ErrorCode::kDevice, "[device] a step that fails");
  };
  const auto engine = start();
  const OutputEvent failed = engine->submit(request(7, 10)).value_or_throw().await().at(0);
  EXPECT_EQ(failed.finish, FinishReason::kError);
  EXPECT_EQ(failed.error_code, ErrorCode::kDevice);
  EXPECT_EQ(failed.tokens.size(), 2u);
  EXPECT_EQ(engine->submit(request(8, 10)).value_or_throw().await().at(0).tokens.size(), 10u);
}

TEST_F(EngineOverMock, AnEngineThatCannotGoOnTellsEverybody) {
  EngineThread::Options options;
  int checks = 0;
  options.check = [&] {
    if (++checks == 3) fail(ErrorCode::kBadInput, "[engine.weights] damaged");
  };
  const auto engine = start(std::move(options));
  const OutputEvent end = engine->submit(request(7, 50)).value_or_throw().await().at(0);
  EXPECT_EQ(end.finish, FinishReason::kError);
  EXPECT_EQ(end.error_code, ErrorCode::kBadInput);
  EXPECT_TRUE(end.last);
  EXPECT_TRUE(engine->drain(60));
  EXPECT_EQ(engine->state(1).phase, Phase::kGone);
  const auto refused = engine->submit(request(8, 1));
  ASSERT_FALSE(refused);
}

TEST_F(EngineOverMock, AStallIsSaidOnce) {
  Gate gate;
  before_step = [&] { gate.pass(); };
  std::promise<std::string> said;
  std::atomic<int> times = 0;
  EngineThread::Options options{.stall_seconds = 0.01};
  options.on_stall = [&](const std::string& text) {
    if (++times == 1) said.set_value(text);
  };
  const auto engine = start(std::move(options));
  RequestHandle handle = engine->submit(request(7, 5)).value_or_throw();
  const std::string text = said.get_future().get();
  EXPECT_NE(text.find("[engine.stall] no step has ended for"), std::string::npos) << text;
  EXPECT_NE(text.find("a step is under way"), std::string::npos) << text;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(times, 1);
  gate.open();
  EXPECT_EQ(handle.await().at(0).finish, FinishReason::kLength);
}

class EngineOnModel : public testing::Test {
 protected:
  static EngineOptions options() {
    return {.device = "cpu", .threads = 2, .max_batch = 4, .max_seq = 64};
  }
  test::OwnCache cache_;
};

TEST_F(EngineOnModel, TheFrozenAnswerComesFromManyThreadsAtOnce) {
  const Json json = parse_json(read_file(kModels / "llama" / "tokens.json"), "tokens.json");
  const auto prompt = json.at("prompt").get<std::vector<std::int32_t>>();
  const auto engine = Engine::open(kModels / "llama", options());
  const auto ask = [&] {
    Request r{.prompt = prompt};
    r.sampling.temperature = 0;
    r.sampling.max_tokens = 12;
    r.sampling.ignore_eos = true;
    return engine->submit(std::move(r)).value_or_throw().await().at(0).tokens;
  };
  const std::vector<std::int32_t> alone = ask();
  ASSERT_EQ(alone.size(), 12u);
  std::vector<std::future<std::vector<std::int32_t>>> answers;
  for (int i = 0; i < 6; ++i) answers.push_back(std::async(std::launch::async, ask));
  for (auto& answer : answers) EXPECT_EQ(answer.get(), alone);
  EXPECT_EQ(engine->statistics().finished, 7);
}

TEST_F(EngineOnModel, HostMemoryIsTakenOnceAndCountsUnderTheCap) {
  EngineOptions o = options();
  o.host_memory = std::uint64_t{1} << 20;
  const auto engine = Engine::open(kModels / "llama", o);
  EXPECT_GT(engine->statistics().host_pages, 0);
  o.host_memory = 1;
  try {
    Engine::open(kModels / "llama", o);
    FAIL() << "a byte holds a page";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kDoesNotFit);
  }
}

TEST_F(EngineOnModel, StatisticsAreLinesOfJson) {
  const test::TemporaryFolder folder;
  EngineOptions o = options();
  o.statistics_file = folder.path() / "statistics.jsonl";
  {
    const auto engine = Engine::open(kModels / "llama", o);
    for (const std::int32_t token : {5, 6}) {
      Request r = request(token, 4);
      r.sampling.ignore_eos = true;
      engine->submit(std::move(r)).value_or_throw().await();
    }
  }
  std::map<std::string, std::int64_t> lines;
  std::int64_t step = 0, tokens = 0;
  std::istringstream text(read_file(o.statistics_file));
  for (std::string line; std::getline(text, line);) {
    const Json json = parse_json(line, "statistics");
    ++lines[json.at("type").get<std::string>()];
    EXPECT_GE(json.at("time").get<double>(), 0);
    if (json.at("type") == "step") {
      EXPECT_EQ(json.at("step"), ++step);
      tokens += json.at("tokens").get<std::int64_t>();
    } else if (json.at("type") == "request") {
      EXPECT_EQ(json.at("generated_tokens"), 4);
      EXPECT_EQ(json.at("finish"), "length");
    } else {
      EXPECT_EQ(json.at("finished"), 2);
      EXPECT_EQ(json.at("steps"), step);
    }
  }
  EXPECT_EQ(lines["request"], 2);
  EXPECT_EQ(lines["summary"], 1);
  EXPECT_EQ(tokens, 8) << "a token of the prompt and three of the answer are read, twice";
}

TEST_F(EngineOnModel, ChatsAndTextsBecomeIds) {
  const auto engine = Engine::open(kModels / "llama", options());
  EXPECT_FALSE(engine->encode("Hello").empty());
  EXPECT_THROW(engine->encode_chat("[{]"), Error);
}

TEST(RandomUse, AMockWithFaultsKeepsItsBooks) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const test::RoundResult r = test::mock_round(seed, 0.3);
    EXPECT_EQ(r.wrong, "") << r.text;
  }
}

TEST(RandomUse, AModelKeepsItsBooks) {
  const test::OwnCache cache;
  for (unsigned seed = 0; seed < 2; ++seed) {
    const test::RoundResult r = test::model_round(seed, 0.3, kModels / "llama");
    EXPECT_EQ(r.wrong, "") << r.text;
  }
}

}  // namespace
}  // namespace ingot
