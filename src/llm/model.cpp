#include "llm/model.h"

#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "llm/devices.h"
#include "llm/memory_fit.h"
#include "llm/model_text.h"
#include "llm/resolve.h"
#include "ops/ops.h"
#include "plan/kv_reach.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace ingot {

namespace {

// The process itself: code, heap, page tables, tokenizer.
constexpr std::uint64_t kProcessBytes = std::uint64_t{40} << 20;

CodeStore read_code(const EngineFile& file) {
  CodeStore code;
  for (const EngineBlob& blob : file.blobs()) {
    if (!blob.name.starts_with("code/")) continue;
    const auto bytes = file.verified(blob);
    code.put(blob.name.substr(5),
             std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return code;
}

// What the plan names must be what this Ingot can read and this device can run.
void check_target(const Plan& plan, const DeviceInfo& device, const std::filesystem::path& path) {
  if (plan.target != device.target)
    fail(ErrorCode::kBadInput,
         "[engine.target] {}: built for {}, this device is {}; choose --device or build again",
         path.string(), plan.target, device.target);
}

// A call that ends by an exception leaves no request behind that nobody waits for.
struct CancelOnError {
  EngineLoop& loop;
  RequestId id;
  int before = std::uncaught_exceptions();
  ~CancelOnError() {
    if (std::uncaught_exceptions() > before) loop.cancel(id);
  }
};

}  // namespace

std::string wrong_sampling(const SamplingParams& params) {
  return check_sampling(params, std::numeric_limits<std::int64_t>::max());
}

std::uint64_t usable_memory(const DeviceInfo& device) {
  return device.free_memory / 20 * 19;
}

std::vector<MemoryRow> memory_table(const Plan& plan, const Device& device, std::int64_t kv_pages) {
  const MemoryNeeds needs = memory_needs(plan, device);
  const std::uint64_t pool = needs.page * static_cast<std::uint64_t>(kv_pages);
  return {{"weights", needs.weights},     {"activations", needs.activations},
          {"workspace", needs.workspace}, {"kv_pool", pool},
          {"process", kProcessBytes},     {"total", needs.fixed() + pool + kProcessBytes}};
}

PoolSize size_pool(const Plan& plan, const EngineInfo& info, const Device& device,
                   const OpenOptions& options, std::uint64_t taken) {
  const MemoryNeeds needs = memory_needs(plan, device);
  const DeviceInfo here = device.info();
  PoolSize size{.cap = options.memory, .fixed = needs.fixed() + kProcessBytes, .others = taken};
  if (size.cap == 0) size.cap = usable_memory(here);
  size.host_pages =
      static_cast<std::int64_t>(options.host_memory / std::max<std::uint64_t>(1, needs.page));
  if (options.host_memory > 0 && size.host_pages < 1)
    fail(ErrorCode::kDoesNotFit,
         "[memory.host] {} hold no page of {} tokens, which takes {}; raise --host-memory or leave "
         "it out",
         human_bytes(options.host_memory), plan.page_tokens, human_bytes(needs.page));
  // Where the device's memory is the host's, one cap is over both.
  if (here.target == "cpu") size.host = needs.page * static_cast<std::uint64_t>(size.host_pages);
  size.others += size.host;
  size.fixed += size.others;
  const std::int64_t per_sequence = options.keeps_all_pages
                                        ? (info.max_seq + plan.page_tokens - 1) / plan.page_tokens
                                        : sequence_pages(plan, info.max_seq);
  const std::int64_t wanted = per_sequence * std::max<std::int64_t>(1, options.sequences);
  const std::uint64_t left = size.cap > size.fixed ? size.cap - size.fixed : 0;
  size.pages = std::min<std::int64_t>(
      wanted, static_cast<std::int64_t>(left / std::max<std::uint64_t>(1, needs.page)));
  return size;
}

namespace {

// `tokens`: one sequence of so many has to fit.
[[noreturn]] void refuse_to_start(const std::string& model, const ModelContents& contents,
                                  const Device& device, const OpenOptions& options,
                                  const PoolSize& size, std::int64_t tokens) {
  const Plan& plan = contents.plan;
  const MemoryNeeds needs = memory_needs(plan, device);
  const std::string others =
      size.others == 0 ? ""
                       : fmt::format(", host pages and draft model {}", human_bytes(size.others));
  const std::int64_t max_seq = contents.info.max_seq;
  const bool whole = tokens == max_seq;
  const auto pages = static_cast<std::uint64_t>(sequence_pages(plan, tokens));
  const std::uint64_t for_all = least_memory(plan, device, max_seq) + size.others;
  const std::string longer =
      whole || max_seq <= plan.page_tokens ||
              (size.host > 0 && for_all > device.info().total_memory)
          ? ""
          : fmt::format(", and with a context of {} tokens and not {} with {}", max_seq,
                        plan.page_tokens, memory_option(for_all));
  fail(ErrorCode::kDoesNotFit,
       "[memory] {} needs {} (weights {}, activations {}, workspace {}, process {}{}) and {} for "
       "the KV cache of {} tokens{}; the cap is {}. It would start with {}{}; --quant makes "
       "weights smaller",
       contents.info.name, human_bytes(size.fixed), human_bytes(needs.weights),
       human_bytes(needs.activations), human_bytes(needs.workspace), human_bytes(kProcessBytes),
       others, human_bytes(needs.page * pages), whole ? max_seq : plan.page_tokens,
       whole ? ", as long as --max-seq says" : "", human_bytes(size.cap),
       nearest_that_starts(
           model, contents, device, options,
           {.cap = size.cap, .others = size.others, .host = size.host, .tokens = tokens}),
       longer);
}

// What a user would otherwise meet as answers that end too soon.
void tell_short_context(const std::string& model, const ModelContents& contents,
                        const Device& device, const OpenOptions& options, const PoolSize& size) {
  const std::int64_t max_seq = contents.info.max_seq;
  const std::int64_t context = longest_sequence(contents.plan, size.pages, max_seq);
  std::string ways =
      memory_option(least_memory(contents.plan, device, max_seq) + size.others) + " holds all";
  if (size.host > 0) ways += ", a smaller --host-memory leaves more";
  if (options.keeps_all_pages)
    ways = "it guesses only so far; raise --memory";
  else if (!is_engine(model))
    ways += fmt::format("{}, and --max-seq {} asks for what there is",
                        contents.info.max_batch > 1 ? ", a smaller --max-batch leaves more" : "",
                        context);
  log_warning("[memory] {}: the context is {} tokens and not {}, as {} leave no more KV cache; {}",
              contents.info.name, context, max_seq, human_bytes(size.cap), ways);
}

}  // namespace

std::unique_ptr<Model> Model::open(const std::string& name, const OpenOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Model> model(new Model());
  model->device_ = open_device(options.device, {.run = options.threads}, options.memory_present);
  model->file_ = std::make_shared<const EngineFile>(resolve_engine(name, *model->device_, options));
  const Json& manifest = model->file_->manifest();
  if (!manifest.contains("info") || !manifest.contains("plan"))
    fail(ErrorCode::kBadInput, "[engine.manifest] {}: no info or plan; build the engine again",
         model->file_->path().string());
  model->info_ = engine_info_from_json(manifest.at("info"));
  model->plan_ = plan_from_json(manifest.at("plan"), all_ops());
  check_agreement(model->info_, model->plan_, all_ops());
  check_target(model->plan_, model->device_->info(), model->file_->path());
  model->open_tokenizer();
  model->open_executor(name, options);
  model->check_ = std::make_unique<BackgroundCheck>(
      model->file_,
      is_engine(name) ? BackgroundCheck::Damaged::kStays : BackgroundCheck::Damaged::kIsRemoved);
  model->open_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

Model::~Model() = default;

void Model::open_tokenizer() {
  const EngineBlob* blob = file_->find_blob("tokenizer");
  if (blob) tokenizer_.emplace(Tokenizer::open(file_->bytes(*blob)));
}

namespace {

constexpr std::size_t kDraftTokens = 5;  // guessed at once, at most

// A guess is an id: it has to mean the same to both.
void check_vocabulary(const Model& model, const Model& draft) {
  if (model.info().vocab != draft.info().vocab)
    fail(ErrorCode::kUsage, "[draft] {} has a vocabulary of {} tokens, {} of {}; wanted the same",
         draft.info().name, draft.info().vocab, model.info().name, model.info().vocab);
  if (!model.has_tokenizer() || !draft.has_tokenizer()) return;
  for (std::int32_t id = 0; id < model.tokenizer().vocab_size(); ++id)
    if (id >= draft.tokenizer().vocab_size() ||
        model.tokenizer().token_bytes(id) != draft.tokenizer().token_bytes(id))
      fail(ErrorCode::kUsage, "[draft] token {} of {} is another one in {}; wanted one vocabulary",
           id, model.info().name, draft.info().name);
}

std::uint64_t total_of(const std::vector<MemoryRow>& table) {
  return table.back().bytes;
}

}  // namespace

void Model::open_draft(const OpenOptions& options) {
  OpenOptions own = options;
  own.draft.clear();
  own.host_memory = 0;
  own.keeps_all_pages = true;
  own.build.quant = BuildOptions().quant;
  own.build.max_seq = BuildOptions().max_seq;
  own.build.attention_window = BuildOptions().attention_window;
  own.build.sink_tokens = BuildOptions().sink_tokens;
  own.random_weights = false;
  draft_ = open(options.draft, own);
  check_vocabulary(*this, *draft_);
  draft_model_ = std::make_unique<DraftModel>(draft_->executor(), draft_->info(), kDraftTokens);
}

void Model::open_executor(const std::string& name, const OpenOptions& options) {
  EngineLoop::Options loop{.policy = options.policy};
  std::uint64_t taken = 0;  // by the draft model
  if (options.draft == "ngram") {
    loop.draft_tokens = static_cast<std::int32_t>(kDraftTokens);
  } else if (!options.draft.empty()) {
    open_draft(options);
    loop.draft_model = draft_model_.get();
    taken = total_of(memory_table(draft_->plan(), *device_, draft_->executor().kv_pages()));
  }
  PreparedKernels kernels = prepare_kernels(plan_, *device_, read_code(*file_));
  plan_.workspace_bytes = kernels.workspace_bytes;  // of this device; the builder's was of its own
  const PoolSize pool = size_pool(plan_, info_, *device_, options, taken);
  if (const std::int64_t holds = longest_sequence(plan_, pool.pages, info_.max_seq);
      holds < info_.max_seq) {
    const ModelContents contents{.info = info_, .plan = plan_, .graph = {}, .passes = {}};
    const std::int64_t wanted = options.build.max_seq == info_.max_seq ? info_.max_seq : 1;
    if (holds < wanted) refuse_to_start(name, contents, *device_, options, pool, wanted);
    tell_short_context(name, contents, *device_, options, pool);
  }
  const auto weights = file_->blob("weights");
  Executor::Options run{.kv_pages = pool.pages, .host_pages = pool.host_pages, .progress = {}};
  if (options.progress && !weights.empty())
    run.progress = [&](std::uint64_t done) {
      options.progress(static_cast<double>(done) / static_cast<double>(weights.size()),
                       "loading weights");
    };
  executor_ = std::make_unique<Executor>(plan_, *device_, weights, std::move(kernels), run);
  loop_ =
      std::make_unique<EngineLoop>(*executor_, info_, tokenizer_ ? &*tokenizer_ : nullptr, loop);
}

std::int64_t Model::context() const {
  return longest_sequence(plan_, executor_->kv_pages(), info_.max_seq);
}

const Tokenizer& Model::tokenizer() const {
  if (!tokenizer_)
    fail(ErrorCode::kBadInput,
         "[model.tokenizer] {} has no tokenizer; give token ids, or build from a folder that has "
         "one",
         info_.name);
  return *tokenizer_;
}

const ChatTemplate& Model::chat_template() {
  if (chat_template_) return *chat_template_;
  const EngineBlob* blob = file_->find_blob("chat_template");
  if (!blob)
    fail(ErrorCode::kBadInput, "[model.chat_template] {} has no chat template; prompt it with -p",
         info_.name);
  const auto bytes = file_->verified(*blob);
  chat_template_.emplace(
      make_chat_template({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, tokenizer()));
  return *chat_template_;
}

SamplingParams Model::default_sampling() const {
  SamplingParams p;
  const GenerationDefaults& g = info_.generation;
  const bool silent = !g.do_sample && !g.temperature && !g.top_k && !g.top_p && !g.min_p;
  if (silent) {
    p.temperature = kUnsaidTemperature;
    p.top_p = kUnsaidTopP;
    p.repetition_penalty = g.repetition_penalty.value_or(1.0);
    return p;
  }
  p.temperature = g.temperature.value_or(1.0);
  p.top_k = g.top_k.value_or(0);
  p.top_p = g.top_p.value_or(1.0);
  p.min_p = g.min_p.value_or(0.0);
  p.repetition_penalty = g.repetition_penalty.value_or(1.0);
  if (g.do_sample.has_value() && !*g.do_sample) p.temperature = 0;
  return p;
}

std::vector<std::int32_t> Model::encode_prompt(std::string_view text) const {
  return tokenizer().encode(text);
}

std::vector<std::int32_t> Model::encode_chat(const RenderedChat& chat) const {
  return encode_rendered(tokenizer(), chat);
}

OutputEvent Model::generate(Request request,
                            const std::function<bool(const OutputEvent&)>& on_event) {
  if (request.sampling.n > 1)
    fail(ErrorCode::kRequest,
         "[generate] n {}: one answer at a time; wanted 1, or a loop or an engine",
         request.sampling.n);
  const RequestId id = loop_->submit(std::move(request)).value_or_throw();
  OutputEvent whole;
  bool cancelled = false;
  const auto stop_unless = [&](bool go_on) {
    if (!go_on && !std::exchange(cancelled, true)) loop_->cancel(id);
  };
  const CancelOnError guard{*loop_, id};
  while (true) {
    std::vector<OutputEvent> events = loop_->step();
    // A long prompt takes many steps that have nothing to tell.
    if (events.empty() && on_event) stop_unless(on_event(OutputEvent{.id = id}));
    for (OutputEvent& event : events) {
      if (event.id != id) continue;
      whole.text += event.text;
      whole.tokens.insert(whole.tokens.end(), event.tokens.begin(), event.tokens.end());
      whole.logprobs.insert(whole.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
      const bool go_on = !on_event || on_event(event);
      if (event.finish != FinishReason::kRunning) {
        event.text = std::move(whole.text);
        event.tokens = std::move(whole.tokens);
        event.logprobs = std::move(whole.logprobs);
        check_->throw_if_damaged();
        return event;
      }
      stop_unless(go_on);
    }
    check(loop_->has_work(), "a request vanished");
    check_->throw_if_damaged();
  }
}

void Model::score(std::span<const std::int32_t> tokens, std::int64_t steps,
                  const Executor::LogitSink& sink) {
  check(!loop_->scheduler().has_work(), "score() uses the pages of the loop's sequences");
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count < 1) fail(ErrorCode::kRequest, "[score] no tokens");
  for (const std::int32_t id : tokens)
    if (id < 0 || id >= executor_->vocab())
      fail(ErrorCode::kRequest, "[score] token {} is outside the vocabulary of {}", id,
           executor_->vocab());
  if (count > info_.max_seq)
    fail(ErrorCode::kRequest,
         "[score] {} tokens; the context holds {}; give fewer, or raise --max-seq", count,
         info_.max_seq);
  if (steps < 0 || steps >= count)
    fail(ErrorCode::kRequest, "[score.steps] {}; wanted 0 to {}", steps, count - 1);
  Scheduler scheduler({.max_tokens = plan_.max[Symbol::kTokens],
                       .max_sequences = 1,
                       .max_pages = plan_.max[Symbol::kPages],
                       .page_tokens = plan_.page_tokens,
                       .kv_pages = executor_->kv_pages(),
                       .reach = kv_reach(plan_)});
  if (!scheduler.fits(tokens.size(), tokens.size(), 1))
    fail(ErrorCode::kRequest,
         "[score] {} tokens; the KV cache holds {}; give fewer, or raise "
         "--memory",
         count, context());
  auto group = std::make_unique<SequenceGroup>();
  group->prompt_tokens = group->limit = tokens.size();  // nothing is drawn
  group->rope_row = info_.rope_long_from > 0 && count > info_.rope_long_from;
  group->prompt_rows = true;
  group->members.push_back(std::make_unique<Sequence>());
  Sequence& sequence = *group->members.back();
  sequence.tokens.assign(tokens.begin(), tokens.end() - steps);
  scheduler.add(std::move(group), "");
  loop_->forget_pages();
  std::int64_t done = 0;
  while (done < count) {
    const ScheduledStep& step = scheduler.next(0);
    executor_->run(step.batch,
                   [&](std::int64_t first, std::int64_t rows, std::span<const float> logits) {
                     sink(done + first, rows, logits);
                   });
    scheduler.commit(step);
    check_->throw_if_damaged();
    done += step.batch.tokens();
    if (done == static_cast<std::int64_t>(sequence.tokens.size()) && done < count)
      sequence.tokens.push_back(tokens[static_cast<std::size_t>(done)]);
  }
}

}  // namespace ingot
