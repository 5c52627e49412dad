#include "base/error.h"
#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "llm/request_json.h"
#include "llm/resolve.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

namespace ingot::cli {

namespace {

struct BatchOptions {
  ModelOptions model;
  std::string in;
  std::string out;
  bool json = false;
  std::string compute;
};

// The lines of a batch on their way through the engine loop. Results leave in the order of the
// lines.
class BatchRun {
 public:
  BatchRun(Model& model, std::string_view text, AtomicFile& out)
      : model_(model),
        text_(text),
        out_(out),
        total_(1 + std::count(text.begin(), text.end(), '\n')) {}

  void run() {
    Progress progress;
    // Enough waits that a free place is filled at once; not the whole file, which may be large.
    const auto in_flight = static_cast<std::size_t>(2 * model_.info().max_batch);
    while (read_more(in_flight) || model_.loop().has_work()) {
      for (OutputEvent& event : model_.loop().step()) take(event);
      model_.background_check().throw_if_damaged();
      progress.update(static_cast<double>(written_) / static_cast<double>(total_),
                      fmt::format("{} answers", written_));
    }
  }

  std::int64_t lines() const { return written_; }
  std::int64_t failed() const { return failed_; }

 private:
  struct Line {
    OrderedJson id;
    OutputEvent answer;  // so far
  };

  // Submits lines until enough are in flight. False when all are.
  bool read_more(std::size_t in_flight) {
    while (open_.size() < in_flight && at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view line = text_.substr(at_, end - at_);
      at_ = end + 1;
      ++number_;
      if (line.find_first_not_of(" \t\r") != std::string_view::npos) submit(line);
    }
    return at_ < text_.size();
  }

  void submit(std::string_view text) {
    const std::int64_t order = submitted_++;
    OrderedJson id = number_;
    try {
      const OrderedJson line = parse_ordered_json(text, fmt::format("line {}", number_));
      if (!line.is_object()) fail(ErrorCode::kRequest, "[batch] wanted a JSON object");
      for (const char* key : {"id", "custom_id"})
        if (line.contains(key) && !line.at(key).is_null()) id = line.at(key);
      const OrderedJson& body = line.contains("body") ? line.at("body") : line;
      Request request = request_from_json(body, model_).value_or_throw();
      const RequestId request_id = model_.loop().submit(std::move(request)).value_or_throw();
      open_[request_id] = order;
      lines_[order] = {std::move(id), {}};
    } catch (const Error& e) {
      if (e.code() == ErrorCode::kBug) throw;
      finish(order, error_line(std::move(id), e));
    }
  }

  static OrderedJson error_line(OrderedJson id, const Error& e) {
    return {{"id", std::move(id)},
            {"error", {{"code", describe(e.code()).name}, {"message", e.message()}}}};
  }

  void take(OutputEvent& event) {
    const auto it = open_.find(event.id);
    if (it == open_.end()) return;
    const std::int64_t order = it->second;
    Line& line = lines_.at(order);
    OutputEvent& whole = line.answer;
    whole.text += event.text;
    whole.tokens.insert(whole.tokens.end(), event.tokens.begin(), event.tokens.end());
    whole.logprobs.insert(whole.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
    if (event.finish == FinishReason::kRunning) return;
    OrderedJson json;
    if (event.finish == FinishReason::kError) {
      json = error_line(std::move(line.id), Error(ErrorCode::kRequest, event.error));
    } else {
      json = {{"id", std::move(line.id)},
              {"text", whole.text},
              {"token_ids", whole.tokens},
              {"finish_reason", to_string(event.finish)},
              {"usage",
               {{"prompt_tokens", event.usage.prompt_tokens},
                {"completion_tokens", event.usage.completion_tokens},
                {"total_tokens", event.usage.prompt_tokens + event.usage.completion_tokens}}}};
      if (!whole.logprobs.empty()) json["logprobs"] = logprobs_json(whole.logprobs, model_);
    }
    open_.erase(it);
    lines_.erase(order);
    finish(order, std::move(json));
  }

  void finish(std::int64_t order, OrderedJson json) {
    if (json.contains("error")) ++failed_;
    done_[order] = dump_json(json) + "\n";
    for (auto next = done_.begin(); next != done_.end() && next->first == written_;
         next = done_.erase(next), ++written_)
      out_.write(next->second);
  }

  Model& model_;
  std::string_view text_;
  AtomicFile& out_;
  std::int64_t total_;  // lines, for progress
  std::size_t at_ = 0;
  std::int64_t number_ = 0;  // of the line, from 1
  std::int64_t submitted_ = 0;
  std::int64_t written_ = 0;
  std::int64_t failed_ = 0;
  std::map<RequestId, std::int64_t> open_;
  std::map<std::int64_t, Line> lines_;        // in flight, by order
  std::map<std::int64_t, std::string> done_;  // waiting for an earlier line
};

int batch(BatchOptions& o) {
  if (!o.compute.empty())
    o.model.mode = o.compute == "f32" ? ComputeMode::kF32 : ComputeMode::kNative;
  std::vector<std::filesystem::path> inputs = model_files(o.model.model);
  inputs.emplace_back(o.in);
  refuse_over_input(o.out, inputs);
  const std::string text = o.in == "-" ? read_standard_input() : read_file(o.in);
  const OpenOptions checked = o.model.open_options();
  const auto model = open_model(o.model, checked.build.max_batch);
  AtomicFile out(o.out == "-" ? "/dev/stdout" : o.out);
  BatchRun run(*model, text, out);
  run.run();
  model->background_check().wait(throw_if_interrupted);
  out.commit();
  if (o.json) print_json({{"requests", run.lines()}, {"failed", run.failed()}});
  if (run.failed() == 0) return 0;
  fail(ErrorCode::kRequest, "[batch] {} of {} lines failed; their `error` says why", run.failed(),
       run.lines());
}

}  // namespace

void declare_batch(Command& command) {
  auto o = std::make_shared<BatchOptions>();
  command.describe(
      "Answers every line of a JSONL file: OpenAI Batch envelopes, completion or chat bodies, or\n"
      "{\"prompt_token_ids\": [...]}. A line that fails has `error`; the exit code is then 1.",
      "ingot batch smollm2.gguf -i questions.jsonl -o answers.jsonl --max-batch 16");
  o->model.declare(command);
  command.option("-i,--in", o->in, "JSONL file; - is standard input", true);
  command.option("-o,--out", o->out, "JSONL file, lines in the same order; - is standard output",
                 true);
  command.choice("--compute", o->compute, {"native", "f32"},
                 "arithmetic: the device's own (default), or float32");
  command.flag("--json", o->json, "a summary as one object: requests, failed");
  command.action([o] { return batch(*o); });
}

}  // namespace ingot::cli
