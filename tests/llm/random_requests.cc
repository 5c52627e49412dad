#include "tests/llm/random_requests.h"

#include "base/error.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace ingot::test {

namespace {

using Clock = std::chrono::steady_clock;

// What is shared by the threads that use one engine.
struct Shared {
  EngineUnderTest& under_test;
  LastEvents& last_events;
  const RandomUse& use;
  Clock::time_point end;
  std::atomic<bool> closing = false;  // submissions may be refused for that
  std::mutex mutex;
  std::vector<RequestHandle> handles;  // whoever takes one, reads it
  std::vector<RequestId> ids;
  UseReport report;
  // Of callbacks: what each request has heard, and whether it threw.
  struct Heard {
    std::int64_t events = 0;
    std::int64_t last = 0;
    bool threw = false;
  };
  std::mutex heard_mutex;
  std::unordered_map<RequestId, Heard> heard;

  void say(const std::string& wrong) {
    const std::lock_guard lock(mutex);
    if (report.wrong.empty()) report.wrong = wrong;
  }
};

class User {
 public:
  User(Shared& shared, unsigned seed) : shared_(shared), random_(seed) {}

  void run() {
    for (std::int64_t n = 0; !done(n); ++n) {
      const unsigned what = below(20);
      if (what < 9)
        submit();
      else if (what < 12)
        submit_with_callback();
      else if (what < 16)
        use_handle();
      else
        ask();
    }
  }

 private:
  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  bool chance(unsigned one_in) { return below(one_in) == 0; }
  Engine& engine() { return *shared_.under_test.engine; }

  bool done(std::int64_t n) const {
    const std::int64_t most = shared_.use.submissions;
    return shared_.closing || (most > 0 ? n >= most : Clock::now() >= shared_.end);
  }

  Request random_request() {
    Request r;
    const auto vocab = static_cast<unsigned>(shared_.under_test.vocab);
    const auto longest = static_cast<unsigned>(shared_.under_test.max_seq);
    const unsigned family = below(4);
    const unsigned length = 1 + below(chance(10) ? longest : 20);
    for (unsigned i = 0; i < length; ++i)
      r.prompt.push_back(
          static_cast<std::int32_t>((i < length / 2 ? family * 13 + i : below(vocab)) % vocab));
    SamplingParams& p = r.sampling;
    p.temperature = chance(2) ? 0 : 1;
    p.max_tokens = static_cast<std::int32_t>(1 + below(chance(8) ? 60 : 12));
    if (chance(5)) p.n = static_cast<std::int32_t>(1 + below(3));
    if (chance(10)) p.best_of = p.n + 1;
    if (chance(6)) p.logprobs = static_cast<std::int32_t>(below(3));
    if (chance(10)) p.prompt_logprobs = 1;
    if (chance(4)) p.ignore_eos = true;
    if (chance(6)) p.seed = below(1000);
    if (chance(12)) {
      p.temperature = 1;
      p.n = 1;
      p.best_of = 0;
      p.beam_width = 2;
    }
    r.priority = static_cast<std::int32_t>(below(5)) - 2;
    if (chance(8)) r.deadline = 0.0002 * (1 + below(100));
    if (chance(4)) r.cache_salt = "other";
    r.share_cache = !chance(4);
    if (chance(8))  // many, so that some are compiled while requests come and go
      r.guided = {.kind = GuidedKind::kRegex,
                  .text = fmt::format("[a-z ]{{1,{}}}{}", 1 + below(40), chance(6) ? "(" : ".*")};
    if (chance(25)) make_wrong(r);
    if (chance(25))
      r.change_logits = [n = 1 + below(6)](const LogitsView& view) mutable {
        if (--n == 0) throw std::runtime_error("a callback that fails");
        view.logits[0] += 1;
      };
    return r;
  }

  void make_wrong(Request& r) {
    if (chance(3))
      r.prompt.clear();
    else if (chance(2))
      r.prompt.assign(static_cast<std::size_t>(shared_.under_test.max_seq), 1);
    else
      r.sampling.temperature = -1;
  }

  bool refused(const Error& error) {
    if (error.code() != ErrorCode::kRequest) shared_.say("refused: " + error.message());
    const std::lock_guard lock(shared_.mutex);
    ++shared_.report.refused;
    return true;
  }

  void note(RequestId id) {
    const std::lock_guard lock(shared_.mutex);
    ++shared_.report.submitted;
    shared_.ids.push_back(id);
  }

  void submit() {
    Result<RequestHandle> handle = engine().submit(random_request());
    if (!handle && refused(handle.error())) return;
    note(handle->id());
    if (chance(6)) return;  // dropped at once
    if (chance(3)) return read(std::move(handle).value());
    const std::lock_guard lock(shared_.mutex);
    shared_.handles.push_back(std::move(handle).value());
  }

  void submit_with_callback() {
    const bool throws = chance(10), cancels = chance(6), submits = chance(10);
    Request another = random_request();
    const auto on_event = [&shared = shared_, throws, cancels, submits,
                           another](const OutputEvent& event) {
      {
        const std::lock_guard lock(shared.heard_mutex);
        Shared::Heard& heard = shared.heard[event.id];
        if (heard.last > 0 || heard.threw) shared.say("a callback is called after its last event");
        ++heard.events;
        heard.last += event.last;
        heard.threw = throws && heard.events == 2;
      }
      if (cancels) shared.under_test.engine->cancel(event.id);
      if (submits && event.last)  // its handle is dropped here
        if (const auto handle = shared.under_test.engine->submit(another)) {
          const std::lock_guard lock(shared.mutex);
          ++shared.report.submitted;
          shared.ids.push_back(handle->id());
        }
      const std::lock_guard lock(shared.heard_mutex);
      if (shared.heard[event.id].threw) throw std::runtime_error("a callback that fails");
    };
    const Result<RequestId> id = engine().submit(random_request(), on_event);
    if (!id && refused(id.error())) return;
    note(*id);
  }

  void use_handle() {
    std::vector<RequestHandle> taken;
    {
      const std::lock_guard lock(shared_.mutex);
      if (shared_.handles.empty()) return;
      const std::size_t at = below(static_cast<unsigned>(shared_.handles.size()));
      taken.push_back(std::move(shared_.handles[at]));
      shared_.handles[at] = std::move(shared_.handles.back());
      shared_.handles.pop_back();
    }
    if (chance(4)) return;  // dropped
    read(std::move(taken.front()));
  }

 public:
  // To the end, in one of the ways.
  void read(RequestHandle handle) {
    const unsigned way = below(5);
    std::int64_t last = 0;
    FinishReason finish = FinishReason::kRunning;
    const auto take = [&](const OutputEvent& event) {
      if (last > 0) shared_.say("an event after the last");
      if (event.id != handle.id()) shared_.say("an event of another request");
      last += event.last;
      if (event.last) finish = event.finish;
      if (event.last && event.finish == FinishReason::kRunning)
        shared_.say("a last event that says the request runs");
    };
    if (way == 0) handle.cancel();
    if (way == 1) {
      const std::vector<OutputEvent> answers = handle.await();
      if (answers.empty()) shared_.say("an answer without an event");
      for (const OutputEvent& answer : answers) {
        last += answer.last;
        if (answer.last) finish = answer.finish;
      }
    } else if (way == 2) {
      while (!handle.finished())
        if (const auto event = handle.next(0.0005)) take(*event);
    } else {
      for (const OutputEvent& event : handle) {
        take(event);
        if (way == 3 && chance(8)) handle.cancel();
      }
    }
    if (last != 1) shared_.say(fmt::format("request {} had {} last events", handle.id(), last));
    if (handle.next()) shared_.say("an event after the end");
    const std::lock_guard lock(shared_.mutex);
    UseReport& r = shared_.report;
    r.finished += finish == FinishReason::kStop || finish == FinishReason::kLength;
    r.cancelled += finish == FinishReason::kCancelled;
    r.expired += finish == FinishReason::kDeadline;
    r.failed += finish == FinishReason::kError;
  }

 private:
  void ask() {
    RequestId id = 1 + below(50);
    {
      const std::lock_guard lock(shared_.mutex);
      if (!shared_.ids.empty()) id = shared_.ids[below(static_cast<unsigned>(shared_.ids.size()))];
    }
    const unsigned what = below(4);
    if (what == 0) engine().cancel(id);
    if (what == 1 || what == 2) {
      const RequestState state = engine().state(id);
      if (state.phase == Phase::kRunning && state.reason != WaitReason::kNone)
        shared_.say("a request runs and has a reason to wait");
    }
    const EngineStatistics s = engine().statistics();
    if (s.free_pages + s.kept_pages > s.pages) shared_.say("more pages than there are");
  }

  Shared& shared_;
  std::mt19937 random_;
};

void check_end(Shared& shared) {
  const EngineStatistics s = shared.under_test.engine->statistics();
  if (s.running != 0 || s.waiting != 0)
    shared.say(fmt::format("{} run and {} wait in an engine that has ended", s.running, s.waiting));
  if (s.free_pages + s.kept_pages != s.pages)
    shared.say(
        fmt::format("{} of {} pages are lost", s.pages - s.free_pages - s.kept_pages, s.pages));
  const std::int64_t ended = s.finished + s.cancelled + s.expired + s.failed;
  if (ended != s.requests) shared.say(fmt::format("{} requests, {} have ended", s.requests, ended));
  for (const auto& [id, heard] : shared.heard)
    if (!heard.threw && heard.last != 1)
      shared.say(fmt::format("the callback of request {} heard {} last events", id, heard.last));
  if (!shared.under_test.watched) return;
  for (const RequestId id : shared.ids)
    if (const std::int64_t times = shared.last_events.count(id); times > 1)
      shared.say(fmt::format("request {} ended {} times", id, times));
  if (shared.last_events.requests() != s.requests)
    shared.say(
        fmt::format("{} requests, last events of {}", s.requests, shared.last_events.requests()));
}

}  // namespace

void LastEvents::told(const OutputEvent& last) {
  const std::lock_guard lock(mutex_);
  ++told_[last.id];
}

std::int64_t LastEvents::count(RequestId id) const {
  const std::lock_guard lock(mutex_);
  const auto known = told_.find(id);
  return known == told_.end() ? 0 : known->second;
}

std::int64_t LastEvents::requests() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(told_);
}

UseReport use_at_random(EngineUnderTest& under_test, LastEvents& last_events,
                        const RandomUse& use) {
  Shared shared{.under_test = under_test,
                .last_events = last_events,
                .use = use,
                .end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(use.seconds))};
  std::mt19937 random(use.seed);
  std::vector<std::thread> threads;
  for (int i = 0; i < use.threads; ++i)
    threads.emplace_back(
        [&shared, seed = random()] { User(shared, static_cast<unsigned>(seed)).run(); });
  const bool closes_amid = random() % 4 == 0 && use.submissions == 0;
  if (closes_amid) {
    std::this_thread::sleep_for(std::chrono::duration<double>(use.seconds / 2));
    shared.closing = true;
    under_test.engine->close();
  }
  for (std::thread& thread : threads) thread.join();
  shared.closing = true;
  User reader(shared, use.seed);
  if (!closes_amid && random() % 2 == 0) {  // every reader hears the true end
    std::vector<RequestHandle> left = std::exchange(shared.handles, {});
    for (RequestHandle& handle : left) reader.read(std::move(handle));
    if (!under_test.engine->drain(60)) shared.say("the engine was not drained within a minute");
  }
  under_test.engine->close();
  for (RequestHandle& handle : std::exchange(shared.handles, {})) reader.read(std::move(handle));
  if (under_test.engine->submit(Request{.prompt = {1}}))
    shared.say("an engine that was closed takes requests");
  check_end(shared);
  return shared.report;
}

}  // namespace ingot::test
