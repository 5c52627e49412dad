#include "ingot/engine.h"

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "llm/callback_thread.h"
#include "llm/engine_over.h"
#include "llm/engine_thread.h"
#include "llm/model.h"
#include "llm/request_json.h"
#include "llm/request_stream.h"
#include "llm/statistics_file.h"

#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

namespace ingot {

namespace {

OpenOptions open_options(const EngineOptions& o) {
  OpenOptions open;
  open.device = o.device;
  open.threads = o.threads;
  open.memory = o.memory;
  open.host_memory = o.host_memory;
  open.sequences = o.max_batch;
  open.policy = o.policy;
  open.draft = o.draft;
  open.build.quant = o.quant;
  open.build.kv_cache = o.kv_cache;
  open.build.attention_window = o.attention_window;
  open.build.sink_tokens = o.sink_tokens;
  open.build.max_batch = o.max_batch;
  open.build.max_seq = o.max_seq;
  open.build.workers = o.threads;
  return open;
}

}  // namespace

struct Engine::Impl {
  std::unique_ptr<Model> model;  // null over a loop of somebody else's
  std::unique_ptr<StatisticsFile> file;
  std::mutex template_mutex;  // parsed at first use
  std::unique_ptr<EngineThread> thread;
  std::unique_ptr<CallbackThread> callbacks;
  std::once_flag closed;

  Impl(const std::string& name, const EngineOptions& options)
      : model(Model::open(name, open_options(options))) {
    if (!options.statistics_file.empty())
      file = std::make_unique<StatisticsFile>(options.statistics_file);
    EngineThread::Options run{.stall_seconds = options.stall_seconds,
                              .on_stall = options.on_stall,
                              .check = [this] { model->background_check().throw_if_damaged(); },
                              .on_step = {},
                              .on_last = {}};
    if (file) {
      run.on_step = [this](const StepStatistics& step) { file->step(step); };
      run.on_last = [this](const OutputEvent& last) { file->request(last); };
    }
    start(model->loop(), std::move(run));
  }

  Impl(EngineLoop& loop, EngineThread::Options options) { start(loop, std::move(options)); }

  void start(EngineLoop& loop, EngineThread::Options options) {
    thread = std::make_unique<EngineThread>(loop, std::move(options));
    callbacks = std::make_unique<CallbackThread>(thread->inbox());
  }

  Model& text() const {
    if (!model)
      fail(ErrorCode::kBadInput, "[engine.text] this engine has no model; give token ids");
    return *model;
  }

  void close() {
    if (callbacks->is_this_thread())
      fail(ErrorCode::kUsage, "[engine.close] called by a callback, which it would wait for");
    std::call_once(closed, [this] {
      thread->close();
      callbacks->finish();
      try {
        if (file) file->close(thread->statistics());
      } catch (const Error& e) {
        log_warning("{}", e.message());
      }
    });
  }
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::unique_ptr<Engine> Engine::open(const std::string& model, const EngineOptions& options) {
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Impl>(model, options)));
}

std::unique_ptr<Engine> EngineOver::loop(EngineLoop& loop, EngineThread::Options options) {
  return std::unique_ptr<Engine>(
      new Engine(std::make_unique<Engine::Impl>(loop, std::move(options))));
}

Engine::~Engine() {
  impl_->close();
}

Result<RequestHandle> Engine::submit(Request request) {
  const std::shared_ptr<Inbox>& inbox = impl_->thread->inbox();
  const RequestId id = inbox->new_id();
  auto stream = std::make_shared<RequestStream>(id, inbox);
  std::optional<Error> refused = impl_->thread->submit(
      id, std::move(request), [stream](OutputEvent&& event) { stream->push(std::move(event)); });
  if (refused) return *std::move(refused);
  return RequestHandle(std::move(stream));
}

Result<RequestId> Engine::submit(Request request, EventCallback on_event) {
  const RequestId id = impl_->thread->inbox()->new_id();
  std::optional<Error> refused = impl_->thread->submit(
      id, std::move(request), impl_->callbacks->receiver_for(std::move(on_event)));
  if (refused) return *std::move(refused);
  return id;
}

void Engine::cancel(RequestId id) {
  impl_->thread->inbox()->cancel(id);
}

RequestState Engine::state(RequestId id) const {
  return impl_->thread->inbox()->ask(id);
}

EngineStatistics Engine::statistics() const {
  return impl_->thread->statistics();
}

bool Engine::drain(double seconds) {
  return impl_->thread->drain(seconds);
}

void Engine::close() {
  impl_->close();
}

std::vector<std::int32_t> Engine::encode(std::string_view text) const {
  return impl_->text().encode_prompt(text);
}

std::vector<std::int32_t> Engine::encode_chat(std::string_view messages) const {
  const OrderedJson body = {{"messages", parse_request(messages, "messages")}};
  const std::lock_guard lock(impl_->template_mutex);
  return request_from_json(body, impl_->text()).value_or_throw().prompt;
}

SamplingParams Engine::default_sampling() const {
  return impl_->model ? impl_->model->default_sampling() : SamplingParams();
}

}  // namespace ingot
