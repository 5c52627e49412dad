#pragma once

#include "base/result.h"
#include "ingot/request.h"
#include "ingot/scheduling.h"
#include "ingot/statistics.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// How a model is opened. What an engine file was built with stays as it is: its own settings win
// over quant, kv_cache, attention_window, sink_tokens, max_batch and max_seq.
struct EngineOptions {
  std::string device = "auto";    // cpu, cuda, cuda:N
  int threads = 0;                // of the CPU; 0: what the machine gives
  std::uint64_t memory = 0;       // bytes, hard cap on everything; 0: what is free
  std::uint64_t host_memory = 0;  // bytes, for pages of the KV cache that do not fit the device
  std::string quant = "none";
  std::string kv_cache = "auto";
  std::int64_t attention_window = 0;  // tokens that layers see at most; 0: as the model has it
  std::int64_t sink_tokens = 0;       // first tokens that layers with a window see in spite of it
  std::int64_t max_batch = 8;         // sequences of a step
  // Tokens of prompt and answer; one sequence of so many has to fit. 0: the model's, at most 8,192,
  // or, with a warning in the log, as many as the memory holds.
  std::int64_t max_seq = 0;
  SchedulerPolicy policy = SchedulerPolicy::kMaxUtilization;
  // Who guesses tokens ahead: "" nobody, "ngram" what was there before, or a smaller model of the
  // same vocabulary. Answers stay the same. Nobody guesses while more than 8 requests run, and with
  // a draft beams are refused.
  std::string draft;
  std::string statistics_file;  // gets a line of JSON for every step and request; "": none
  // When requests wait and no step has ended for so long, on_stall is told why, once until steps go
  // on. Without on_stall it is a warning of the log.
  double stall_seconds = 30;
  std::function<void(const std::string&)> on_stall;
};

// Gets every event of a request in order, from a thread that belongs to callbacks alone: a slow one
// delays other callbacks, never the engine. It may call the engine, but not end it. When it throws,
// its request is cancelled, and it hears nothing more.
using EventCallback = std::function<void(const OutputEvent&)>;

class RequestStream;
struct EngineOver;

// A request under way. Its events wait here until they are read, however late: an answer is bounded
// by its max_tokens and the context, so what waits is too, and no reader holds up another. Any
// thread may call anything. Outliving the engine is fine.
class RequestHandle {
 public:
  explicit RequestHandle(std::shared_ptr<RequestStream> stream);
  // Cancels the request if it has not ended.
  ~RequestHandle();
  RequestHandle(RequestHandle&&) noexcept;
  RequestHandle& operator=(RequestHandle&&) noexcept;

  RequestId id() const;
  // The next event; waits for it. Nothing after the last.
  std::optional<OutputEvent> next();
  // The same, waiting at most so long. Nothing: not yet, or nothing more comes, see finished().
  std::optional<OutputEvent> next(double seconds);
  // The last event has been read.
  bool finished() const;
  // Reads to the end and gives the request's answers by index, each as one event with its whole
  // text, tokens and logprobs. Events that were read before are not part of it.
  std::vector<OutputEvent> await();
  // Its last event comes with kCancelled, unless it had ended.
  void cancel();

  // for (const OutputEvent& event : handle)
  class Iterator {
   public:
    using value_type = OutputEvent;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(RequestHandle* handle) : handle_(handle), event_(handle->next()) {}
    const OutputEvent& operator*() const { return *event_; }
    const OutputEvent* operator->() const { return &*event_; }
    Iterator& operator++() {
      event_ = handle_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t) { return !it.event_; }

   private:
    RequestHandle* handle_;
    std::optional<OutputEvent> event_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<RequestStream> stream_;
};

// A model that answers many requests at once. Any thread may call anything at any time. Every
// request gets exactly one last event, whatever happens: an end, a cancellation, an error, or the
// engine's own end.
class Engine {
 public:
  // MODEL: a Hugging Face folder, a .gguf or .ingot file, or a hub name. Returns when the first
  // request could run. Throws Error: what is wrong with the model, the device or the options.
  static std::unique_ptr<Engine> open(const std::string& model, const EngineOptions& options = {});
  // As close().
  ~Engine();

  // Refused, as Error{kRequest} with numbers: parameters out of range, a prompt that does not fit,
  // an engine that takes no more.
  Result<RequestHandle> submit(Request request);
  // The same, with a callback instead of a handle: the request goes on until it ends or is
  // cancelled.
  Result<RequestId> submit(Request request, EventCallback on_event);
  // Unknown and ended ones are left alone.
  void cancel(RequestId id);
  // Where a request stands, and why it waits or was paused. Answered between two steps.
  RequestState state(RequestId id) const;
  // As of the last step; does not wait.
  EngineStatistics statistics() const;

  // Takes no more requests and returns when all have ended, or, false, after so many seconds.
  bool drain(double seconds = 1e9);
  // Takes no more requests, cancels those that are there, and returns when all have their last
  // event; callbacks have heard theirs. Not to be called by a callback.
  void close();

  // Token ids of a text, with what the tokenizer puts before it; of a chat, a JSON array of
  // {"role": ..., "content": ...}, by the model's template. Throw Error{kBadInput} where the model
  // has no tokenizer or template, and Error{kRequest} for messages that it refuses.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::vector<std::int32_t> encode_chat(std::string_view messages) const;
  // What the checkpoint recommends.
  SamplingParams default_sampling() const;

 private:
  friend struct EngineOver;
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ingot
