#include "cli/memory_report.h"

#include "base/error.h"
#include "base/units.h"
#include "plan/kv_reach.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ingot::cli {

MemoryReport report_memory(const std::string& model, const ModelContents& contents,
                           const Device& device, const OpenOptions& options) {
  if (!options.draft.empty() && options.draft != "ngram")
    fail(ErrorCode::kUsage,
         "[usage] --draft {}: the table is of one model; plan the draft model by itself",
         options.draft);
  const Plan& plan = contents.plan;
  const DeviceInfo here = device.info();
  MemoryReport report{.model = contents.info.name,
                      .target = plan.target,
                      .max_batch = contents.info.max_batch,
                      .max_seq = contents.info.max_seq,
                      .rows = {},
                      .kv_cache = kv_cache_name(plan),
                      .cap = options.memory,
                      .fit = {},
                      .least = least_memory(plan, device, contents.info.max_seq),
                      .nearest = {},
                      .asked = options.build.max_seq == contents.info.max_seq,
                      .shortest = least_memory(plan, device, 1),
                      .shortest_context = std::min(plan.page_tokens, contents.info.max_seq)};
  report.rows = memory_table(plan, device, sequence_pages(plan, report.max_seq) * report.max_batch);
  report.kv_token = memory_needs(plan, device).page / static_cast<std::uint64_t>(plan.page_tokens);
  if (report.cap == 0 && here.present) report.cap = usable_memory(here);
  if (report.cap > 0) report.fit = find_fit(model, contents, device, options, report.cap);
  if (report.cap > 0 && report.least > report.cap)
    report.nearest = nearest_that_starts(model, contents, device, options,
                                         {.cap = report.cap, .tokens = report.max_seq});
  return report;
}

void refuse_what_cannot_start(const MemoryReport& r) {
  if (r.nearest.empty()) return;
  std::string parts;
  std::uint64_t others = 0;
  for (const MemoryRow& row : r.rows) {
    if (row.what == "kv_pool" || row.what == "total") continue;
    parts += fmt::format("{} {}, ", row.what, human_bytes(row.bytes));
    others += row.bytes;
  }
  fail(ErrorCode::kDoesNotFit,
       "[memory] {} with {} sequences a step and one of {} tokens needs {} ({}KV cache {}); the "
       "cap is {}. It would start with {}; --quant makes weights smaller",
       r.model, r.max_batch, r.max_seq, human_bytes(r.least), parts, human_bytes(r.least - others),
       human_bytes(r.cap), r.nearest);
}

namespace {

std::string short_of_memory(const MemoryReport& r) {
  if (r.asked) return fmt::format("it does not start; it would with {}\n", r.nearest);
  if (!r.starts())
    return fmt::format(
        "it does not start; it would with {} for a context of {} tokens; with all {}: {}\n",
        memory_option(r.shortest), r.shortest_context, r.max_seq, r.nearest);
  return fmt::format(
      "a context of {} tokens and not {}: running it warns, `build` refuses it; neither does with "
      "{}\n",
      r.fit.longest, r.max_seq, r.nearest);
}

}  // namespace

std::string to_text(const MemoryReport& r) {
  std::string text = fmt::format("{} on {}: {} sequences a step, up to {} tokens each\n", r.model,
                                 r.target, r.max_batch, r.max_seq);
  for (const MemoryRow& row : r.rows)
    text +=
        fmt::format("  {:12} {:>12}  {:>15} bytes\n", row.what, human_bytes(row.bytes), row.bytes);
  text += fmt::format("  KV cache: {}, {} a token\n", r.kv_cache, human_bytes(r.kv_token));
  if (r.cap == 0) return text + "  the target is not here: give --memory to see what fits\n";
  text += fmt::format("  in {}: ", human_bytes(r.cap));
  if (!r.nearest.empty()) return text + short_of_memory(r);
  text += fmt::format("one sequence of {} tokens", r.fit.longest);
  if (r.fit.sequences > 0)
    text += fmt::format("; {} sequences of {} at once", r.fit.sequences, r.max_seq);
  return text + "\n";
}

OrderedJson to_json(const MemoryReport& r) {
  OrderedJson memory;
  for (const MemoryRow& row : r.rows) memory[row.what] = row.bytes;
  OrderedJson json = {{"model", r.model},
                      {"target", r.target},
                      {"max_batch", r.max_batch},
                      {"max_seq", r.max_seq},
                      {"memory", memory},
                      {"kv_cache", r.kv_cache},
                      {"kv_bytes_per_token", r.kv_token},
                      {"memory_limit", nullptr},
                      {"starts", nullptr},
                      {"largest_seq", nullptr},
                      {"largest_batch", nullptr}};
  if (r.cap == 0) return json;
  json["memory_limit"] = r.cap;
  json["starts"] = r.starts();
  json["largest_seq"] = r.fit.longest;
  json["largest_batch"] = r.fit.sequences;
  return json;
}

}  // namespace ingot::cli
