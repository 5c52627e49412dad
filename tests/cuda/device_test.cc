// What a target that is not here can do: answer the compiler, build code, run nothing.
#include "cuda/device.h"

#include "base/error.h"
#include "cuda/binding.h"
#include "cuda/context.h"
#include "cuda/nvrtc_api.h"
#include "cuda/weight_tiles.h"
#include "ops/attrs.h"
#include "ops/ops.h"
#include "quant/weight_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

namespace ingot::cuda {
namespace {

using ::testing::HasSubstr;

ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.code();
  }
  return ErrorCode::kBug;
}

ValueType rows_of(DType dtype, std::int64_t columns) {
  ValueType type;
  type.dtype = dtype;
  type.dims = {Symbol::kTokens, columns};
  return type;
}

// A linear [64, 256] on bf16 rows.
struct LinearCase {
  Attrs attrs = write_attrs(LinearAttrs{.out = "bf16"});
  OpCall call;
  explicit LinearCase(std::string_view format, std::string layout = std::string(kRowsLayout)) {
    ValueType weight;
    weight.dims = {64, 256};
    weight.format = &weight_format(format);
    call.op = "linear";
    call.attrs = &attrs;
    call.operands = {rows_of(DType::kBF16, 256), weight};
    call.layouts = {"", std::move(layout)};
    call.results = op("linear").infer(attrs, call.operands);
  }
};

TEST(Target, NamesFollowComputeCapability) {
  EXPECT_EQ(target_of(7, 5), "");
  EXPECT_EQ(target_of(8, 0), "sm_80");
  EXPECT_EQ(target_of(8, 9), "sm_89");
  EXPECT_EQ(target_of(9, 0), "sm_90a");
  EXPECT_EQ(target_of(10, 0), "sm_100a");
  EXPECT_EQ(target_of(10, 3), "sm_103a");
  EXPECT_EQ(target_of(12, 0), "sm_120");
}

TEST(Target, RefusesWhatIsNoTarget) {
  for (const char* arch : {"", "cpu", "sm_", "sm_9", "sm_90b", "sm_9000", "90a"})
    EXPECT_EQ(code_of([&] { make_cuda_target(arch); }), ErrorCode::kUsage) << arch;
  EXPECT_EQ(code_of([] { make_cuda_target("sm_90"); }), ErrorCode::kUsage);
  for (const std::string_view arch : kDesignTargets)
    EXPECT_EQ(make_cuda_target(arch)->info().target, arch);
}

TEST(Target, IsNotHereAndRunsNothing) {
  const auto device = make_cuda_target("sm_90a");
  EXPECT_FALSE(device->info().present);
  EXPECT_EQ(code_of([&] { device->allocate(16, "x"); }), ErrorCode::kDevice);
  EXPECT_EQ(code_of([&] { device->make_stream(); }), ErrorCode::kDevice);
  EXPECT_EQ(code_of([&] { device->place_weights({}, {}); }), ErrorCode::kDevice);
}

TEST(Target, AnswersTheCompiler) {
  const auto device = make_cuda_target("sm_80");
  EXPECT_EQ(device->activation_dtype(ComputeMode::kNative), DType::kBF16);
  EXPECT_EQ(device->activation_dtype(ComputeMode::kF32), DType::kF32);
  const StateSpec state{.kv_heads = 3, .head_dim = 64, .dtype = DType::kBF16};
  EXPECT_EQ(device->page_bytes(state, 32), 2u * 3 * 64 * 32 * 2);
  const StateSpec int8{.kv_heads = 3, .head_dim = 64, .dtype = DType::kI8};
  EXPECT_EQ(device->page_bytes(int8, 32), 2u * 3 * (64 + 4) * 32);
}

TEST(Target, PacksEveryFormatWithoutLoss) {
  const auto device = make_cuda_target("sm_80");
  const Shape shape{3, 256};
  for (const WeightFormat* format : weight_formats()) {
    const WeightLayout layout = device->weight_layout(*format, shape, {});
    std::vector<std::byte> rows(weight_bytes(*format, 3, 256));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i * 37 + 11);
    std::vector<std::byte> packed(layout.bytes);
    std::vector<std::byte> back(rows.size());
    device->pack_weight(layout, *format, shape, rows, packed);
    device->unpack_weight(layout, *format, shape, packed, back);
    EXPECT_EQ(back, rows) << format->name;
    const WeightLayout foreign{"cpu_panel32", layout.bytes};
    EXPECT_EQ(code_of([&] { device->pack_weight(foreign, *format, shape, rows, packed); }),
              ErrorCode::kBadInput);
    packed.pop_back();
    EXPECT_EQ(code_of([&] { device->unpack_weight(layout, *format, shape, packed, back); }),
              ErrorCode::kBadInput);
  }
}

TEST(Target, TilesAreForLinearsAndTheirEmbeddings) {
  const auto device = make_cuda_target("sm_80");
  const WeightUse linear{.op = "linear", .operand = 1}, embed{.op = "embed", .operand = 1},
      bias{.op = "linear", .operand = 2};
  const auto name = [&](std::string_view format, std::vector<WeightUse> uses) {
    return device->weight_layout(weight_format(format), {40, 256}, uses).name;
  };
  EXPECT_EQ(name("bf16", {linear}), kTilesLayout);
  EXPECT_EQ(name("q4_0", {linear, embed}), kTilesLayout);
  EXPECT_EQ(name("bf16", {embed}), kRowsLayout);
  EXPECT_EQ(name("bf16", {linear, bias}), kRowsLayout);
  EXPECT_EQ(name("q6_k", {linear}), kRowsLayout);
  EXPECT_EQ(name("f32", {linear}), kRowsLayout);
}

TEST(FindKernel, EveryOpAndEveryFormatIsCovered) {
  for (const OpDef* definition : all_ops())
    EXPECT_NE(find_binding(definition->name), nullptr) << definition->name;
  for (const std::string_view stem : kernel_stems()) EXPECT_NO_THROW(op(stem)) << stem;
  for (const WeightFormat* format : weight_formats()) {
    const LinearCase c(format->name);
    EXPECT_TRUE(std::holds_alternative<Binding>(find_binding("linear")(c.call))) << format->name;
  }
}

TEST(FindKernel, ReasonsNameWhatIsWrong) {
  const auto device = make_cuda_target("sm_80");
  CodeStore code;
  const auto reason = [&](const OpCall& call) {
    const KernelOrReason found = device->find_kernel(call, code);
    const auto* text = std::get_if<std::string>(&found);
    return text ? *text : "a kernel";
  };
  OpCall unknown;
  unknown.op = "conv3d";
  EXPECT_THAT(reason(unknown), HasSubstr("conv3d"));
  EXPECT_THAT(reason(LinearCase("bf16", "cpu_panel32").call), HasSubstr("cpu_panel32"));
  LinearCase integers("bf16");
  integers.call.operands[0].dtype = DType::kI8;
  EXPECT_THAT(reason(integers.call), HasSubstr("i8"));

  const Attrs attrs = write_attrs(
      AttentionAttrs{.heads = 2, .kv_heads = 1, .head_dim = 12, .scale = 1, .window = 0});
  OpCall attention;
  attention.op = "attention";
  attention.attrs = &attrs;
  attention.operands.resize(5);
  attention.operands[0] = rows_of(DType::kBF16, 24);
  attention.operands[1].dims = {Symbol::kSequences};
  attention.operands[2].dims = {Symbol::kSequences};
  attention.operands[3].dims = {Symbol::kSequences, Symbol::kPages};
  attention.operands[4].state = {.kv_heads = 1, .head_dim = 12};
  attention.results = {rows_of(DType::kBF16, 24)};
  EXPECT_THAT(reason(attention), HasSubstr("head_dim 12, wanted a multiple of 8"));
}

TEST(FindKernel, StoresCodeOnceAndNeedsNoCompilerAgain) {
  if (!nvrtc_api()) GTEST_SKIP() << nvrtc_api().error().message();
  int compiled = 0;
  const JitOptions options{.use_cache = false,
                           .on_compiled = [&](const CompiledKernel&) { ++compiled; }};
  const auto device = make_cuda_target("sm_80", options);
  CodeStore code;
  const LinearCase c("q4_1");
  for (int i = 0; i < 2; ++i) {
    KernelOrReason found = device->find_kernel(c.call, code);
    ASSERT_TRUE(std::holds_alternative<std::unique_ptr<Kernel>>(found));
    auto& kernel = std::get<std::unique_ptr<Kernel>>(found);
    EXPECT_EQ(kernel->name(), "linear.sm_80.bf16.q4_1");
    EXPECT_EQ(code_of([&] { kernel->run({}); }), ErrorCode::kDevice);
  }
  EXPECT_EQ(compiled, 1);
  ASSERT_EQ(code.objects().size(), 1u);
  // An engine that holds the cubin: another device object, nothing compiled.
  const auto later = make_cuda_target("sm_80", options);
  EXPECT_TRUE(std::holds_alternative<std::unique_ptr<Kernel>>(later->find_kernel(c.call, code)));
  EXPECT_EQ(compiled, 1);
}

}  // namespace
}  // namespace ingot::cuda
