#include "cli/memory_report.h"

#include "base/error.h"
#include "base/units.h"

#include <nlohmann/json.hpp>

namespace ingot::cli {

MemoryReport report_memory(const std::string& model, const ModelContents& contents,
                           const Device& device, const OpenOptions& options) {
  const Plan& plan = contents.plan;
  const DeviceInfo here = device.info();
  MemoryReport report{.model = contents.info.name,
                      .target = plan.target,
                      .max_batch = contents.info.max_batch,
                      .max_seq = contents.info.max_seq,
                      .rows = {},
                      .kv_cache = kv_cache_name(plan),
                      .cap = options.memory,
                      .fit = {}};
  const std::int64_t pages = (report.max_seq + plan.page_tokens - 1) / plan.page_tokens;
  report.rows = memory_table(plan, device, pages * report.max_batch);
  report.kv_token = memory_needs(plan, device).page / static_cast<std::uint64_t>(plan.page_tokens);
  if (report.cap == 0 && here.present) report.cap = usable_memory(here);
  if (report.cap > 0) report.fit = find_fit(model, contents, device, options, report.cap);
  return report;
}

void refuse_what_cannot_start(const MemoryReport& r) {
  if (r.cap == 0 || r.fit.sequences > 0) return;
  const std::string nearest = r.fit.longest > 0
                                  ? fmt::format("--max-seq {} would fit", r.fit.longest)
                                  : std::string("not even a short sequence would fit");
  fail(ErrorCode::kDoesNotFit,
       "[memory] {} with a sequence of {} tokens does not fit into {}: the table says {} for {} "
       "sequences; {}. Raise --memory, lower --max-seq or --max-batch, or quantise with --quant",
       r.model, r.max_seq, human_bytes(r.cap), human_bytes(r.rows.back().bytes), r.max_batch,
       nearest);
}

std::string to_text(const MemoryReport& r) {
  std::string text = fmt::format("{} on {}: {} sequences a step, up to {} tokens each\n", r.model,
                                 r.target, r.max_batch, r.max_seq);
  for (const MemoryRow& row : r.rows)
    text +=
        fmt::format("  {:12} {:>12}  {:>15} bytes\n", row.what, human_bytes(row.bytes), row.bytes);
  text += fmt::format("  KV cache: {}, {} a token\n", r.kv_cache, human_bytes(r.kv_token));
  if (r.cap == 0) return text + "  the target is not here: give --memory to see what fits\n";
  text += fmt::format("  in {}: ", human_bytes(r.cap));
  if (r.fit.longest == 0) return text + "does not fit\n";
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
                      {"largest_seq", nullptr},
                      {"largest_batch", nullptr}};
  if (r.cap == 0) return json;
  json["memory_limit"] = r.cap;
  json["largest_seq"] = r.fit.longest;
  json["largest_batch"] = r.fit.sequences;
  return json;
}

}  // namespace ingot::cli
