#include "base/error.h"
#include "base/exception.h"
#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/loop_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "llm/request_json.h"
#include "llm/resolve.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace ingot::cli {

namespace {

struct BatchOptions {
  ModelOptions model;
  LoopOptions loop;
  std::string in;
  std::string out;
  bool json = false;
  std::string compute;
};

// Alternatives that lines may hold at once until they are written: 8 bytes each, in the memory that
// the plan counts for the process. A position costs as much as some of them.
constexpr std::uint64_t kMostAlternatives = std::uint64_t{1} << 20;
constexpr std::uint64_t kPositionAlternatives = 6;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// The first line of `text`, which loses it.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::int64_t count_requests(std::string_view text) {
  std::int64_t count = 0;
  while (!text.empty()) count += !is_blank(take_line(text));
  return count;
}

// The lines of a batch on their way through the engine loop. Results leave in the order of the
// lines.
class BatchRun {
 public:
  BatchRun(Model& model, CountedLoop& counted, std::string_view text, AtomicFile& out)
      : model_(model), counted_(counted), text_(text), out_(out), total_(count_requests(text)) {}

  void run() {
    Progress progress;
    // Enough waits that a free place is filled at once; not the whole file, which may be large.
    const auto in_flight = static_cast<std::size_t>(2 * model_.info().max_batch);
    while (read_more(in_flight) || model_.loop().has_work()) {
      for (OutputEvent& event : counted_.step(model_.loop())) take(event);
      if (std::exchange(told_, written_) != written_) out_.update();
      model_.background_check().throw_if_damaged();
      progress.update(static_cast<double>(finished()) / static_cast<double>(total_),
                      fmt::format("{} of {} answers", finished(), total_));
    }
  }

  // After a run that broke off: what is finished goes to the file without the lines between.
  void write_finished() {
    while (!done_.empty()) write_next();
  }

  std::int64_t lines() const { return total_; }
  std::int64_t finished() const { return written_ + static_cast<std::int64_t>(done_.size()); }
  std::int64_t failed() const { return failed_; }
  // Of the first step that failed, if any: more than a request that was refused.
  const std::optional<Error>& fault() const { return fault_; }

 private:
  struct Line {
    OrderedJson id;
    bool tells_prompt = false;         // its log-probabilities, even where there are none
    std::uint64_t alternatives = 0;    // at most so many, as counted against kMostAlternatives
    std::vector<OutputEvent> answers;  // so far, by their index
  };

  // On its way to the file, behind an earlier line.
  struct Finished {
    std::string text;          // whole, or
    std::optional<Line> line;  // with log-probabilities, many times as large as a text
  };

  // Read, and waiting until those before it have given back their alternatives.
  struct Waiting {
    std::int64_t order = 0;
    Line line;
    Request request;
  };

  // Submits lines until enough are in flight. False when all are.
  bool read_more(std::size_t in_flight) {
    while (open_.size() < in_flight && (waiting_ || !text_.empty())) {
      if (waiting_) {
        if (alternatives_ > 0 && alternatives_ + waiting_->line.alternatives > kMostAlternatives)
          return true;
        start();
        continue;
      }
      const std::string_view line = take_line(text_);
      ++number_;
      if (!is_blank(line)) read(line);
    }
    return waiting_ || !text_.empty();
  }

  void start() {
    Waiting next = std::move(*waiting_);
    waiting_.reset();
    try {
      const RequestId id = model_.loop().submit(std::move(next.request)).value_or_throw();
      open_[id] = next.order;
      alternatives_ += next.line.alternatives;
      lines_[next.order] = std::move(next.line);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kBug) throw;
      finish_with_error(next.order, error_line(std::move(next.line.id), e));
    }
  }

  // Most alternatives that a request keeps until it is written. Throws Error{kRequest} when they
  // are too many for one.
  std::uint64_t count_alternatives(const Request& request) const {
    const SamplingParams& p = request.sampling;
    const auto context = static_cast<std::uint64_t>(model_.info().max_seq);
    const std::uint64_t prompt = request.prompt.size();
    const std::uint64_t room = context - std::min(context, prompt);
    const std::uint64_t tokens =
        p.max_tokens > 0 ? std::min(room, static_cast<std::uint64_t>(p.max_tokens)) : room;
    const auto answers = static_cast<std::uint64_t>(std::max({p.n, p.best_of, p.beam_width}));
    std::uint64_t total = 0;
    const auto add = [&](const char* field, std::int32_t top, std::uint64_t positions) {
      if (top < 0 || top > model_.info().vocab) return;  // the loop says what is wrong
      const std::uint64_t wanted = positions * static_cast<std::uint64_t>(top);
      if (wanted > kMostAlternatives)
        fail(ErrorCode::kRequest,
             "[request.{}] {}: of {} tokens they are {}, and a line holds at most {}; wanted at "
             "most {}, or fewer tokens",
             field, top, positions, wanted, kMostAlternatives, kMostAlternatives / positions);
      total += wanted + kPositionAlternatives * positions;
    };
    add("prompt_logprobs", p.prompt_logprobs, prompt);
    add("logprobs", p.logprobs, tokens * answers);
    return total;
  }

  void read(std::string_view text) {
    const std::int64_t order = submitted_++;
    OrderedJson id = number_;
    try {
      const std::string what = fmt::format("line {}", number_);
      const OrderedJson line = parse_ordered_json(text, what);
      for (const char* key : {"id", "custom_id"})
        if (line.is_object() && line.contains(key) && !line.at(key).is_null()) id = line.at(key);
      refuse_repeated_keys(text, line, what);
      Request request = request_from_batch_line(line, model_).value_or_throw();
      Line kept{.id = id,
                .tells_prompt = request.sampling.prompt_logprobs >= 0,
                .alternatives = count_alternatives(request),
                .answers = {}};
      waiting_ = Waiting{order, std::move(kept), std::move(request)};
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kBug) throw;
      finish_with_error(order, error_line(std::move(id), e));
    }
  }

  static std::string error_line(OrderedJson id, const Error& e) {
    const OrderedJson json = {
        {"id", std::move(id)},
        {"error", {{"code", describe(e.code()).name}, {"message", e.message()}}}};
    return dump_json(json) + "\n";
  }

  void take(OutputEvent& event) {
    const auto it = open_.find(event.id);
    if (it == open_.end()) return;
    const std::int64_t order = it->second;
    Line& line = lines_.at(order);
    const auto index = static_cast<std::size_t>(event.index);
    line.answers.resize(std::max(line.answers.size(), index + 1));
    const bool is_last = event.last;
    join(line.answers[index], event);
    if (!is_last) return;
    Line whole = std::move(line);
    open_.erase(it);
    lines_.erase(order);
    if (std::string text = failure(whole); !text.empty()) {
      alternatives_ -= whole.alternatives;
      finish_with_error(order, std::move(text));
    } else if (whole.alternatives > 0) {
      finish(order, {.text = {}, .line = std::move(whole)});
    } else {
      write_answer(whole, [&](std::string_view part) { text += part; });
      finish(order, {.text = std::move(text), .line = {}});
    }
  }

  // `event` goes behind what came before; what it says of the whole is the last word.
  static void join(OutputEvent& whole, OutputEvent& event) {
    whole.text += event.text;
    whole.tokens.insert(whole.tokens.end(), event.tokens.begin(), event.tokens.end());
    std::ranges::move(event.logprobs, std::back_inserter(whole.logprobs));
    event.text = std::move(whole.text);
    event.tokens = std::move(whole.tokens);
    event.logprobs = std::move(whole.logprobs);
    if (!whole.prompt_logprobs.empty()) event.prompt_logprobs = std::move(whole.prompt_logprobs);
    whole = std::move(event);
  }

  // The error line of an answer that failed, else "".
  std::string failure(const Line& line) {
    for (const OutputEvent& answer : line.answers) {
      if (answer.finish != FinishReason::kError) continue;
      const Error error = error_of(answer);
      if (error.code() != ErrorCode::kRequest && !fault_) fault_ = error;
      return error_line(line.id, error);
    }
    return {};
  }

  void write_choice(const OutputEvent& answer, const TextSink& out) const {
    const OrderedJson json = {{"text", answer.text},
                              {"token_ids", answer.tokens},
                              {"finish_reason", to_string(answer.finish)}};
    const std::string text = dump_json(json);
    out(std::string_view(text).substr(1, text.size() - 2));  // without the braces
    if (answer.logprobs.empty()) return;
    out(",\"logprobs\":");
    write_logprobs(answer.logprobs, model_, out);
  }

  // The first answer as the line's own; all of several as `choices`.
  void write_answer(const Line& line, const TextSink& out) const {
    const OutputEvent& first = line.answers.front();
    std::int64_t made = 0, drafted = 0, accepted = 0;
    for (const OutputEvent& answer : line.answers) {
      made += answer.usage.completion_tokens;
      drafted = std::max(drafted, answer.usage.drafted_tokens);  // each tells those of all so far
      accepted = std::max(accepted, answer.usage.accepted_drafts);
    }
    const OrderedJson usage = {{"prompt_tokens", first.usage.prompt_tokens},
                               {"completion_tokens", made},
                               {"total_tokens", first.usage.prompt_tokens + made},
                               {"cached_tokens", first.usage.cached_tokens},
                               {"drafted_tokens", drafted},
                               {"accepted_drafts", accepted}};
    out(fmt::format("{{\"id\":{},", dump_json(line.id)));
    write_choice(first, out);
    out(fmt::format(",\"usage\":{},\"seed\":{}", dump_json(usage), first.seed));
    if (line.tells_prompt) {
      out(",\"prompt_logprobs\":");
      write_prompt_logprobs(first.prompt_logprobs, model_, out);
    }
    if (line.answers.size() > 1) {
      std::string_view before = ",\"choices\":[{";
      for (const OutputEvent& answer : line.answers) {
        out(std::exchange(before, "},{"));
        write_choice(answer, out);
      }
      out("}]");
    }
    out("}\n");
  }

  void finish_with_error(std::int64_t order, std::string text) {
    ++failed_;
    finish(order, {.text = std::move(text), .line = {}});
  }

  void finish(std::int64_t order, Finished finished) {
    done_.emplace(order, std::move(finished));
    while (!done_.empty() && done_.begin()->first == written_) write_next();
  }

  void write_next() {
    const Finished& next = done_.begin()->second;
    out_.write(next.text);
    if (next.line) {
      write_answer(*next.line, [this](std::string_view text) { out_.write(text); });
      alternatives_ -= next.line->alternatives;
    }
    done_.erase(done_.begin());
    ++written_;
  }

  Model& model_;
  CountedLoop& counted_;
  std::string_view text_;  // what is not read yet
  AtomicFile& out_;
  std::int64_t total_;       // lines with a request
  std::int64_t number_ = 0;  // of the line, from 1
  std::int64_t submitted_ = 0;
  std::int64_t written_ = 0;
  std::int64_t told_ = 0;  // of written_, what the reader of the file sees
  std::int64_t failed_ = 0;
  std::optional<Error> fault_;
  std::map<RequestId, std::int64_t> open_;
  std::map<std::int64_t, Line> lines_;     // in flight, by order
  std::map<std::int64_t, Finished> done_;  // waiting for an earlier line
  std::optional<Waiting> waiting_;
  std::uint64_t alternatives_ = 0;  // of lines_ and done_ at most
};

// `error`, which ended the run, with word of where the finished lines are.
// What damaged weights have said is not kept.
Error keep_finished(const Error& error, const Model& model, BatchRun& run, AtomicFile& out) {
  if (run.finished() == 0 || error.code() == ErrorCode::kBadInput) return error;
  try {
    model.background_check().wait();
    run.write_finished();
    const std::string kept = out.commit_partial().string();
    return {error.code(), fmt::format("{}; {} of {} lines were finished, and are in {}",
                                      error.message(), run.finished(), run.lines(), kept)};
  } catch (const Error& lost) {
    return {error.code(), fmt::format("{}; {} finished lines are lost: {}", error.message(),
                                      run.finished(), lost.message())};
  }
}

int batch(BatchOptions& o) {
  const bool to_standard_output = o.out == "-" || o.out == kStandardOutput;
  if (to_standard_output && o.json)
    fail(ErrorCode::kUsage,
         "[usage] --json promises one object on standard output, and -o {} sends the answers "
         "there; give -o the name of a file",
         o.out);
  if (!o.compute.empty())
    o.model.mode = o.compute == "f32" ? ComputeMode::kF32 : ComputeMode::kNative;
  std::vector<std::filesystem::path> inputs = model_files(o.model.model);
  inputs.emplace_back(o.in);
  refuse_over_input(o.out, inputs);
  refuse_over_input(o.out + ".partial", inputs);
  if (o.loop.stats) {
    refuse_over_input(*o.loop.stats, inputs);
    refuse_one_output(to_standard_output ? std::string(kStandardOutput) : o.out, *o.loop.stats);
    refuse_one_output(o.out + ".partial", *o.loop.stats);
  }
  const std::string text = o.in == "-" ? read_standard_input() : read_file(o.in);
  const OpenOptions checked = o.model.open_options();
  // Before the model, which may take minutes: a place that cannot be written is told at once.
  AtomicFile out(to_standard_output ? std::string(kStandardOutput) : o.out);
  CountedLoop counted(o.loop);
  const auto model =
      open_model(o.model, checked.build.max_batch, [&](OpenOptions& open) { o.loop.apply(open); });
  BatchRun run(*model, counted, text, out);
  catch_termination();
  out.show_partial();
  try {
    run.run();
    counted.close(model->loop());
    model->background_check().wait(throw_if_interrupted);
    out.commit();
  } catch (const std::exception& e) {
    throw keep_finished(as_error(e), *model, run, out);
  }
  if (o.json) print_json({{"requests", run.lines()}, {"failed", run.failed()}});
  if (run.failed() == 0) return 0;
  if (run.fault())
    fail(run.fault()->code(),
         "[batch] {} of {} lines failed; their `error` says why, the first: {}", run.failed(),
         run.lines(), run.fault()->message());
  fail(ErrorCode::kRequest, "[batch] {} of {} lines failed; their `error` says why", run.failed(),
       run.lines());
}

}  // namespace

void declare_batch(Command& command) {
  auto o = std::make_shared<BatchOptions>();
  command.describe(
      "Answers every line of a JSONL file: OpenAI Batch envelopes, completion or chat bodies, or\n"
      "{\"prompt_token_ids\": [...]}. A line that says what nobody would heed fails; one that "
      "fails\n"
      "has `error`, and the exit code is then 1, or that of the fault (4: memory, 5: device) that\n"
      "failed it. OUT is written whole or not at all. While it runs, the finished lines up to the\n"
      "first unfinished one are in OUT.partial; a run that is stopped (Ctrl-C, SIGTERM, SIGHUP) "
      "or\n"
      "breaks off leaves all finished lines there, in the same order.",
      "ingot batch smollm2.gguf -i questions.jsonl -o answers.jsonl --max-batch 16\n"
      "A line of questions.jsonl:\n"
      "  {\"id\": 1, \"messages\": [{\"role\": \"user\", \"content\": \"Name three fruits.\"}], "
      "\"max_tokens\": 64}");
  o->model.declare(command);
  o->loop.declare(command);
  command.option("-i,--in", o->in, "JSONL file; - is standard input", true);
  command.option("-o,--out", o->out, "JSONL file, lines in the same order; - is standard output",
                 true);
  command.choice("--compute", o->compute, {"native", "f32"},
                 "arithmetic: the device's own (default), or float32");
  command.flag("--json", o->json, "a summary as one object: requests, failed; not with -o -");
  command.action([o] { return batch(*o); });
}

}  // namespace ingot::cli
