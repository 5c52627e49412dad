#include "base/error.h"
#include "ops/ops.h"
#include "passes/pass.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace ingot {

namespace {

// Order matters: rows are selected while the head is still plain; gate and up merge before q, k and
// v so that the general merge does not take them; what no epilogue took of the residual adds goes
// to the norms.
constexpr std::array kPipeline = {
    Pass{"select_rows", "compute logits only for the rows that are wanted", select_rows},
    Pass{"fuse_gate_up", "one matmul for gate and up with SwiGLU at its end", fuse_gate_up},
    Pass{"merge_linears", "one matmul for q, k and v", merge_linears},
    Pass{"fuse_rope_append", "rotate q and k and append k and v in one kernel", fuse_rope_append},
    Pass{"fuse_residual", "add the residual at the end of a matmul", fuse_residual},
    Pass{"fuse_add_rms_norm", "add and normalise in one kernel", fuse_add_rms_norm},
};

}  // namespace

std::span<const Pass> pipeline() {
  return kPipeline;
}

std::vector<PassReport> run_pipeline(Graph& graph, PassContext& context,
                                     std::span<const std::string> skip) {
  for (const std::string& name : skip) {
    if (std::none_of(kPipeline.begin(), kPipeline.end(),
                     [&](const Pass& p) { return p.name == name; }))
      fail(ErrorCode::kUsage, "[passes] no pass is named {}; `inspect --passes` lists them", name);
  }
  std::vector<PassReport> reports;
  for (const Pass& pass : kPipeline) {
    PassReport report{.name = pass.name};
    report.skipped = std::find(skip.begin(), skip.end(), pass.name) != skip.end();
    if (!report.skipped) {
      const auto start = std::chrono::steady_clock::now();
      report.changed = pass.run(graph, context);
      try {
        verify(graph);
      } catch (const Error& e) {
        fail(ErrorCode::kBug, "[passes.{}] left an invalid graph: {}", pass.name, e.message());
      }
      report.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    report.nodes = static_cast<int>(graph.nodes.size());
    reports.push_back(report);
  }
  return reports;
}

OpCall op_call(const Graph& graph, const Device& device, ComputeMode mode, const OpDef& def,
               const Attrs& attrs, std::span<const ValueType> operands) {
  OpCall call{.op = def.name,
              .attrs = &attrs,
              .max = graph.max,
              .mode = mode,
              .page_tokens = device.page_tokens()};
  call.operands.assign(operands.begin(), operands.end());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::string layout;
    if (operands[i].format) {
      const WeightUse use{.op = def.name, .operand = static_cast<int>(i)};
      layout = device.weight_layout(*operands[i].format, operands[i].at(graph.max), {&use, 1}).name;
    }
    call.layouts.push_back(std::move(layout));
  }
  call.results = def.infer(attrs, operands);
  return call;
}

const std::string& PassContext::refusal(const Graph& graph, std::string_view op_name,
                                        const Attrs& attrs, std::span<const ValueType> operands) {
  const OpDef& def = op(op_name);
  std::string key(op_name);
  for (const auto& [name, value] : attrs.entries()) {
    key += "," + name + "=";
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>) {
            key += v;
          } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            for (const std::int64_t x : v) key += std::to_string(x) + " ";
          } else {
            key += std::to_string(v);
          }
        },
        value);
  }
  for (const ValueType& t : operands) key += ";" + to_string(t);
  const auto [it, fresh] = answers_.try_emplace(key);
  if (fresh) {
    const OpCall call = op_call(graph, device_, mode_, def, attrs, operands);
    KernelOrReason answer = device_.find_kernel(call, code_);
    if (const auto* reason = std::get_if<std::string>(&answer))
      it->second = reason->empty() ? "refused" : *reason;
  }
  return it->second;
}

}  // namespace ingot
