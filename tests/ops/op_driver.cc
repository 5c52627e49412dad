#include "tests/ops/op_driver.h"

#include "base/check.h"
#include "base/error.h"
#include "ops/ops.h"

#include <fmt/core.h>

#include "tests/ops/op_run.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace ingot {

namespace {

// How far a result may be off: |got - wanted| <= max * rms(wanted) + relative * |wanted| for each
// number, and rms(got - wanted) <= rms * rms(wanted) for the whole.
struct OpTolerance {
  double relative = 0;
  double max = 0;
  double rms = 0;
};
// `dtype` is the activations'.
OpTolerance op_tolerance(std::string_view op, ComputeMode mode, DType dtype,
                         ActivationRounding rounding) {
  // Rounding of the result, and of what a kernel keeps in its activation type on the way.
  const double unit = dtype == DType::kF32 ? 6e-8 : dtype == DType::kF16 ? 4.9e-4 : 3.91e-3;
  const bool moves_only = op == "split" || op == "gather_rows" || op == "cast" || op == "embed";
  if (moves_only) return {.relative = unit, .max = 1e-30, .rms = 1e-30};
  const bool native = mode == ComputeMode::kNative && dtype != DType::kF32;
  if (op == "linear") {
    // 8-bit activations: steps of max|x| / 127 in a group, about 0.8 % of a product's rms for
    // normal numbers, five times that at most; a gate multiplies two such products.
    if (rounding == ActivationRounding::kInt8)  // also where activations are kept in f32
      return {.relative = 2 * unit, .max = 0.25, .rms = 0.03};
    // Each product is off by at most 2^-9; sums of few terms have little to average over.
    if (rounding == ActivationRounding::kBf16)
      return {.relative = 2 * 3.91e-3, .max = 1.6e-2, .rms = 3.91e-3};
    if (native) return {.relative = unit, .max = 2 * unit, .rms = unit / 2};
    return {.relative = 1e-5, .max = 2e-5, .rms = 3e-6};
  }
  if (op == "attention") {
    // Queries and probabilities are off by 2^-9 at most, as where activations are kept in bf16.
    if (rounding == ActivationRounding::kBf16)
      return {.relative = 3.91e-3, .max = 6 * 3.91e-3, .rms = 3.91e-3};
    if (native) return {.relative = unit, .max = 6 * unit, .rms = unit};
    // Steps of 2^-15 of the largest query value of a head, and of the largest probability of a
    // block.
    if (rounding == ActivationRounding::kInt16) return {.relative = 1e-4, .max = 1e-3, .rms = 2e-4};
    return {.relative = 1e-5, .max = 2e-5, .rms = 3e-6};
  }
  // Element by element, or normalised by a sum. Angles of f32 positions are good to 1e-7 of 2 pi
  // times the turns.
  if (native) return {.relative = 1.01 * unit, .max = unit, .rms = unit / 2};
  return {.relative = 2e-6, .max = 4e-6, .rms = 1e-6};
}

struct Comparison {
  bool good = true;
  std::string detail;
  double max_error = 0;
  double rms_error = 0;
};

Comparison compare(std::span<const float> got, std::span<const float> wanted,
                   const OpTolerance& tolerance) {
  Comparison c;
  if (wanted.empty()) return c;
  double squares = 0, error_squares = 0;
  for (const float w : wanted) squares += static_cast<double>(w) * w;
  const double count = static_cast<double>(wanted.size());
  const double rms = std::sqrt(squares / count);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got[i]) - wanted[i]);
    error_squares += error * error;
    const double allowed = tolerance.max * rms + tolerance.relative * std::fabs(wanted[i]);
    c.max_error = std::max(c.max_error, std::isfinite(error) ? error / (rms + 1e-30) : INFINITY);
    if (!(error <= allowed) && c.good) {
      c.good = false;
      c.detail = fmt::format("[{}] is {}, wanted {} within {:.3g}", i, got[i], wanted[i], allowed);
    }
  }
  c.rms_error = std::sqrt(error_squares / count) / (rms + 1e-30);
  const double relative = tolerance.rms + tolerance.relative;
  if (c.good && !(c.rms_error <= relative)) {
    c.good = false;
    c.detail =
        fmt::format("rms error {:.3g} of the result's, wanted {:.3g}", c.rms_error, relative);
  }
  return c;
}

std::string_view mode_name(ComputeMode mode) {
  return mode == ComputeMode::kF32 ? "f32" : "native";
}

// The state after the call, seen by an attention that reads every page whole.
void check_state(OpRun& run, const OpDef& op, OpOutcome& outcome) {
  const std::vector<float> got = run.read_state_on_device();
  OpTolerance tolerance =
      op_tolerance("attention", run.mode(), run.activation_dtype(), run.state_rounding());
  // A rotated value a hair off (angles) may lie on the other side of a rounding to 8 bit: few
  // values are a step off, which is up to an 8th of them in e4m3.
  if (op.name == "rope_kv_append" && state_scale_bytes(run.state_dtype()) > 0) {
    tolerance.max = std::max(tolerance.max, 0.02);
    tolerance.rms = std::max(tolerance.rms, 5e-4);
  }
  const Comparison c = compare(got, run.read_state_by_reference(), tolerance);
  outcome.max_error = std::max(outcome.max_error, c.max_error);
  outcome.rms_error = std::max(outcome.rms_error, c.rms_error);
  if (c.good) return;
  outcome.status = OpStatus::kFailed;
  outcome.detail = "state read back: " + c.detail;
}

void check_results(OpRun& run, const OpDef& op, OpOutcome& outcome) {
  run.run_reference();
  run.run_on_device();
  const std::vector<std::vector<std::byte>> first = run.result_bytes();
  outcome.status = OpStatus::kPassed;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const DType dtype = run.result_dtype(i);
    OpTolerance tolerance =
        op_tolerance(op.name, run.mode(), run.activation_dtype(), run.activation_rounding());
    const Comparison c = compare(run.result(i), run.wanted(i), tolerance);
    outcome.max_error = std::max(outcome.max_error, c.max_error);
    outcome.rms_error = std::max(outcome.rms_error, c.rms_error);
    if (!c.good && outcome.status == OpStatus::kPassed) {
      outcome.status = OpStatus::kFailed;
      outcome.detail = fmt::format("result {} ({}): {}", i, dtype_name(dtype), c.detail);
    }
  }
  if (outcome.status == OpStatus::kPassed && !run.guards_intact()) {
    outcome.status = OpStatus::kFailed;
    outcome.detail = "wrote outside its results";
  }
  if (outcome.status == OpStatus::kPassed && op.writes_state) check_state(run, op, outcome);
  if (outcome.status != OpStatus::kPassed) return;
  run.run_on_device();
  if (run.result_bytes() != first) {
    outcome.status = OpStatus::kFailed;
    outcome.detail = "a second run gives other bits";
  }
  for (const auto& [operand, result] : op.in_place) {
    if (outcome.status != OpStatus::kPassed || !run.can_share(operand, result)) continue;
    run.run_on_device({{operand, result}});
    if (run.result_bytes() == first) continue;
    outcome.status = OpStatus::kFailed;
    outcome.detail =
        fmt::format("other bits when result {} overwrites operand {}", result, operand);
  }
}

OpOutcome check_one(Device& device, const OpDef& op, const OpRunSpec& spec) {
  OpOutcome outcome;
  outcome.name =
      fmt::format("{}/{}/{}{}", op.name, spec.sample->name,
                  spec.format ? std::string(spec.format->name) + "/" : "", mode_name(spec.mode));
  try {
    OpRun run(device, op, spec);
    if (!run.missing().empty()) {
      outcome.status = OpStatus::kMissing;
      outcome.detail = run.missing();
      return outcome;
    }
    outcome.kernel = run.kernel_name();
    check_results(run, op, outcome);
  } catch (const Error& e) {
    outcome.status = OpStatus::kFailed;
    outcome.detail = e.message();
  }
  return outcome;
}

template <typename Visit>
void for_each_call(const OpCase& sample, const OpCheckOptions& options, Visit visit) {
  for (const ComputeMode mode : options.modes) {
    if (!takes_matrix(sample)) {
      if (options.only_format.empty()) visit(OpRunSpec{.sample = &sample, .mode = mode});
      continue;
    }
    for (const WeightFormat* format : weight_formats()) {
      if (!options.only_format.empty() && format->name != options.only_format) continue;
      if (!fits_format(sample, *format)) continue;
      visit(OpRunSpec{.sample = &sample, .mode = mode, .format = format});
    }
  }
}

bool wanted(const std::string& only, std::string_view name) {
  return only.empty() || only == name;
}

}  // namespace

std::string to_string(const OpOutcome& o) {
  const std::string_view status = o.status == OpStatus::kPassed    ? "ok     "
                                  : o.status == OpStatus::kMissing ? "MISSING"
                                                                   : "FAILED ";
  return fmt::format("{} {:<48} {:<28} max {:.2e} rms {:.2e}{}{}", status, o.name, o.kernel,
                     o.max_error, o.rms_error, o.detail.empty() ? "" : "  ", o.detail);
}

std::string to_string(const OpTiming& t) {
  if (t.seconds <= 0) return fmt::format("{:<52} no kernel: {}", t.name, t.kernel);
  const std::string flops =
      t.flops > 0 ? fmt::format("{:9.1f} GFLOP/s", t.flops / t.seconds * 1e-9) : "";
  return fmt::format("{:<52} {:<28} {:10.1f} us {:8.1f} GB/s {}", t.name, t.kernel, t.seconds * 1e6,
                     t.bytes / t.seconds * 1e-9, flops);
}

std::vector<OpOutcome> check_ops(Device& device, const OpCheckOptions& options) {
  std::vector<OpOutcome> outcomes;
  for (const OpDef* op : all_ops()) {
    if (!wanted(options.only_op, op->name)) continue;
    for (const OpCase& sample : op->cases()) {
      if (!wanted(options.only_case, sample.name)) continue;
      for_each_call(sample, options, [&](const OpRunSpec& spec) {
        outcomes.push_back(check_one(device, *op, spec));
      });
    }
  }
  return outcomes;
}

std::vector<OpTiming> bench_ops(Device& device, const OpCheckOptions& options) {
  std::vector<OpTiming> timings;
  for (const BenchCase& bench : bench_cases()) {
    if (!wanted(options.only_op, bench.op) || !wanted(options.only_case, bench.sample.name))
      continue;
    const OpDef& definition = op(bench.op);
    for_each_call(bench.sample, options, [&](const OpRunSpec& spec) {
      OpTiming timing;
      timing.name = fmt::format("{}/{}/{}{}", bench.op, bench.sample.name,
                                spec.format ? std::string(spec.format->name) + "/" : "",
                                mode_name(spec.mode));
      OpRunSpec cold = spec;
      cold.cold_weights = true;
      OpRun run(device, definition, cold);
      timing.kernel = run.missing().empty() ? run.kernel_name() : run.missing();
      if (run.missing().empty()) {
        timing.seconds = run.median_seconds();
        timing.bytes = run.bytes_touched();
        timing.flops = bench.flops;
      }
      timings.push_back(timing);
      std::puts(to_string(timing).c_str());
      std::fflush(stdout);
    });
  }
  return timings;
}

int run_op_driver(Device& device, const std::vector<std::string>& arguments) {
  OpCheckOptions options;
  bool bench = false, verbose = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    const std::string value = i + 1 < arguments.size() ? arguments[i + 1] : "";
    if (a == "--bench") {
      bench = true;
      continue;
    }
    if (a == "--verbose") {
      verbose = true;
      continue;
    }
    if (a == "--op")
      options.only_op = value;
    else if (a == "--case")
      options.only_case = value;
    else if (a == "--format")
      options.only_format = value;
    else if (a == "--mode" && (value == "native" || value == "f32"))
      options.modes = {value == "f32" ? ComputeMode::kF32 : ComputeMode::kNative};
    else
      fail(ErrorCode::kUsage, "[op_driver] unknown argument {} {}", a, value);
    ++i;
  }
  std::printf("%s: %s\n", device.info().target.c_str(), device.info().description.c_str());
  if (bench) {
    bench_ops(device, options);
    return 0;
  }
  int passed = 0, failed = 0, missing = 0;
  for (const OpOutcome& o : check_ops(device, options)) {
    (o.status == OpStatus::kPassed ? passed : o.status == OpStatus::kFailed ? failed : missing)++;
    if (verbose || !o.good()) std::puts(to_string(o).c_str());
  }
  std::printf("%d passed, %d failed, %d without a kernel\n", passed, failed, missing);
  return failed > 0 || passed == 0 ? 1 : 0;
}

}  // namespace ingot
