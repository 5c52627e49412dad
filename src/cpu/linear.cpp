#include "cpu/linear.h"

#include "base/check.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

namespace ingot::cpu {

namespace {

constexpr std::int64_t kFewTokens = 4;  // every thread quantises these itself: no barrier
// Fewer would expand the weights again and again, which costs more than activations from L3.
constexpr std::int64_t kFewestBlockTokens = 128;
constexpr std::int64_t kMostBlockTokens = 512;
constexpr std::int64_t kLongestInt32 = 65536;  // 255 * 127 * k stays below 2^31
constexpr std::size_t kMostFormats = 4;        // of one call

std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

std::size_t to_size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

// Of the activations of a block of tokens: half of L2, where they stay while the panels pass by.
std::int64_t most_act_bytes() {
  static const std::int64_t bytes =
      std::clamp<std::int64_t>(sysconf(_SC_LEVEL2_CACHE_SIZE) / 2, 1 << 18, 1 << 20);
  return bytes;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Carves aligned pieces off the workspace.
class Arena {
 public:
  explicit Arena(const LinearWorkspace& workspace)
      : at_(workspace.data), end_(workspace.data + workspace.bytes) {}
  template <typename T>
  T* take(std::size_t count) {
    std::byte* p = at_;
    const std::size_t bytes = aligned(count * sizeof(T));
    check(bytes <= left(), "linear() has too small a workspace");
    at_ += bytes;
    return reinterpret_cast<T*>(p);
  }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }

 private:
  std::byte* at_;
  std::byte* end_;
};

// Bytes that `Arena` gives out for the activations of `values` = tokens x k values.
std::size_t act_bytes(const MatmulPlan& plan, std::int64_t values, std::int64_t tokens) {
  const std::size_t groups = to_size(values / 16 + tokens);
  return aligned(to_size(values * plan.value_bytes)) + 3 * aligned(groups * 4);
}

ActTile take_act(Arena& arena, const MatmulPlan& plan, std::int64_t tokens, std::int64_t k) {
  const std::size_t groups = to_size(tokens * k / 16 + tokens);
  return {.q = arena.take<std::byte>(to_size(tokens * k * plan.value_bytes)),
          .init = arena.take<std::int32_t>(groups),
          .scale = arena.take<float>(groups),
          .sum = arena.take<float>(groups),
          .tokens = 0};
}

// Tokens of one block: the activations of all formats together take about most_act_bytes().
std::int64_t block_tokens(std::int64_t value_bytes, std::int64_t k) {
  return std::clamp(most_act_bytes() / std::max<std::int64_t>(1, k * value_bytes),
                    kFewestBlockTokens, kMostBlockTokens);
}

// Tokens cut into tiles whose sizes differ by at most one.
struct Tiles {
  std::int64_t tokens;
  std::int64_t count;

  Tiles(std::int64_t tokens, int most) : tokens(tokens), count(ceil_div(tokens, most)) {}
  std::int64_t first(std::int64_t t) const {
    return t * (tokens / count) + std::min(t, tokens % count);
  }
  int size(std::int64_t t) const { return static_cast<int>(first(t + 1) - first(t)); }
};

// What one distinct format of a call needs.
struct Input {
  const PackedFormat* format;
  MatmulPlan plan;
  std::int64_t k;  // padded
  ActTile shared;  // of a block of tokens, tile after tile

  ActTile tile(const ActTile& all, const Tiles& tiles, std::int64_t t) const {
    const std::int64_t first = tiles.first(t);
    const bool rows = format->group == 0;
    const std::int64_t groups = rows ? first : first * (k / format->group);
    const std::int64_t scales = rows ? first : first * (k / 32);
    return {.q = static_cast<std::byte*>(all.q) + first * k * plan.value_bytes,
            .init = all.init + groups,
            .scale = all.scale + scales,
            .sum = all.sum + groups,
            .tokens = tiles.size(t)};
  }
};

struct Scratch {  // of one thread
  std::uint8_t* q;
  float* scale;
  float* c;
  std::array<ActTile, kMostFormats> act;
};

// One call in progress: what every thread reads.
struct Job {
  const LinearCall& call;
  const MatmulKernels& kernels;
  std::array<Input, kMostFormats> inputs;
  std::size_t input_count = 0;
  std::int64_t panels = 0;
  bool few = false;

  std::size_t input_of(const PackedFormat* format) const {
    for (std::size_t i = 0; i < input_count; ++i)
      if (inputs[i].format == format) return i;
    check(false, "every format of a call has its activations");
    return 0;
  }
};

// A block of tokens: [begin, begin + tokens) of the call's m.
struct TokenBlock {
  std::int64_t begin;
  std::int64_t tokens;
};

void quantise(const Job& job, const Input& input, const ActTile& act, const TokenBlock& block,
              std::pair<int, int> part) {
  const Tiles tiles(block.tokens, input.plan.tile_tokens);
  for (std::int64_t t = part.first; t < tiles.count; t += part.second)
    job.kernels.quantise({.format = input.format,
                          .compute = job.call.compute,
                          .x = job.call.x + (block.begin + tiles.first(t)) * job.call.x_stride,
                          .x_stride = job.call.x_stride,
                          .k = job.call.weights[0].k,
                          .padded_k = input.k,
                          .out = input.tile(act, tiles, t)});
}

// Where one panel's results go.
struct PanelOutput {
  int columns;
  std::int64_t row;     // of the panel's first row among all rows of the call
  std::int64_t column;  // of its first output in y
};

void finish(const Job& job, const PanelOutput& out, std::int64_t token, int tokens,
            const float* c) {
  const LinearCall& call = job.call;
  job.kernels.finish({.c = c,
                      .tokens = tokens,
                      .columns = out.columns,
                      .epilogue = call.epilogue,
                      .bias = call.bias != nullptr ? call.bias + out.row : nullptr,
                      .residual = call.residual != nullptr
                                      ? call.residual + token * call.residual_stride + out.column
                                      : nullptr,
                      .residual_stride = call.residual_stride,
                      .y = call.y + token * call.y_stride + out.column,
                      .y_stride = call.y_stride});
}

// The lines of y that a tile will write: fetched while it multiplies, or its stores would queue up
// behind each other's misses and hold up the next tile.
void expect_results(const LinearCall& call, std::int64_t token, int tokens, std::int64_t column) {
  for (int i = 0; i < tokens; ++i) {
    const float* y = call.y + (token + i) * call.y_stride + column;
    __builtin_prefetch(y, 1);
    if (call.epilogue != Epilogue::kSwiglu) __builtin_prefetch(y + 16, 1);
  }
}

// One panel of one weight for a block of tokens.
void run_panel(const Job& job, const Input& input, const ActTile& act, const std::uint8_t* panel,
               const TokenBlock& block, const PanelOutput& out, const Scratch& scratch) {
  const PackedFormat& f = *input.format;
  const Tiles tiles(block.tokens, input.plan.tile_tokens);
  const auto* row_scale = f.row_header_bytes != 0 ? reinterpret_cast<const float*>(panel) : nullptr;
  const std::uint8_t* blocks = panel + f.row_header_bytes * kPanelRows;
  const bool whole = input.k <= input.plan.slice_k;
  const std::int64_t bytes_per_k32 = std::int64_t{packed_block_bytes(f)} * 32 / f.block_k;
  for (std::int64_t k = 0; k < input.k; k += input.plan.slice_k) {
    const std::int64_t slice = std::min<std::int64_t>(input.plan.slice_k, input.k - k);
    const std::int64_t slice_bytes = slice / 32 * bytes_per_k32;
    if (!input.plan.in_place || input.plan.slice_floats > 0)
      job.kernels.expand({.format = &f,
                          .compute = job.call.compute,
                          .in_place = input.plan.in_place,
                          .blocks = blocks,
                          .k = slice,
                          .row_scale = row_scale,
                          .q = scratch.q,
                          .scale = scratch.scale});
    const std::uint8_t* q = input.plan.in_place ? blocks : scratch.q;
    blocks += slice_bytes;
    const bool last = k + slice == input.k;
    for (std::int64_t t = 0; t < tiles.count; ++t) {
      // Sums that end with this slice need not be kept: all tiles use the same lines of L1.
      float* c = whole ? scratch.c : scratch.c + tiles.first(t) * kPanelRows;
      const std::int64_t token = block.begin + tiles.first(t);
      if (last) expect_results(job.call, token, tiles.size(t), out.column);
      job.kernels.tile({.format = &f,
                        .compute = job.call.compute,
                        .act = input.tile(act, tiles, t),
                        .k_begin = k,
                        .k = slice,
                        .q = q,
                        .in_place = input.plan.in_place,
                        .scale = scratch.scale,
                        .c = c,
                        .first = k == 0,
                        .last = last,
                        .row_scale = row_scale,
                        .prefetch = blocks,
                        .prefetch_bytes = t == 0 ? slice_bytes : 0});
      if (last) finish(job, out, token, tiles.size(t), c);
    }
  }
}

// Panels [begin, end) of the call's weights, counted through all of them.
void run_panels(const Job& job, std::pair<std::int64_t, std::int64_t> range,
                const TokenBlock& block, const Scratch& scratch) {
  std::int64_t first_panel = 0;
  std::int64_t first_row = 0;
  const int outputs_per_row = job.call.epilogue == Epilogue::kSwiglu ? 2 : 1;
  for (const PackedWeight& w : job.call.weights) {
    const std::size_t which = job.input_of(w.format);
    const Input& input = job.inputs[which];
    const ActTile& act = job.few ? scratch.act[which] : input.shared;
    const std::size_t panel_bytes = packed_panel_bytes(*w.format, w.k);
    const std::int64_t begin = std::max<std::int64_t>(0, range.first - first_panel);
    const std::int64_t end = std::min(w.panels(), range.second - first_panel);
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t row = first_row + p * kPanelRows;
      const PanelOutput out{
          .columns = static_cast<int>(std::min<std::int64_t>(kPanelRows, w.n - p * kPanelRows)),
          .row = row,
          .column = row / outputs_per_row};
      const auto* panel = reinterpret_cast<const std::uint8_t*>(w.data) + to_size(p) * panel_bytes;
      run_panel(job, input, act, panel, block, out, scratch);
    }
    first_panel += w.panels();
    first_row += w.n;
  }
}

void check_call(const LinearCall& call) {
  check(!call.weights.empty(), "linear() has a weight");
  for (const PackedWeight& w : call.weights) {
    check(w.k == call.weights[0].k, "the weights of one call share their input");
    check(call.epilogue != Epilogue::kSwiglu || w.n % kPanelRows == 0,
          "gate and up rows are interleaved in whole panels");
    check(w.format->group != 0 || w.format->is_float || w.k <= kLongestInt32,
          "int8 rows are at most 65536 long");
  }
}

Job start(const LinearCall& call, const MatmulKernels& kernels) {
  Job job{.call = call, .kernels = kernels, .inputs = {}};
  job.few = call.m <= kFewTokens;
  for (const PackedWeight& w : call.weights) {
    job.panels += w.panels();
    bool known = false;
    for (std::size_t i = 0; i < job.input_count; ++i) known |= job.inputs[i].format == w.format;
    if (known) continue;
    check(job.input_count < kMostFormats, "at most four weight formats in one call");
    job.inputs[job.input_count++] = {.format = w.format,
                                     .plan = kernels.plan(*w.format, call.compute, call.m),
                                     .k = padded_k(*w.format, w.k),
                                     .shared = {}};
  }
  return job;
}

}  // namespace

std::size_t linear_workspace_bytes(std::span<const PackedFormat* const> formats, Compute compute,
                                   std::int64_t max_m, std::int64_t max_k, int threads, Tier tier) {
  const MatmulKernels& kernels = matmul_kernels(tier);
  const std::int64_t k = (max_k + 255) / 256 * 256;
  std::size_t shared = 0;
  std::size_t own = 0;
  std::size_t slice = 0;
  const std::int64_t tokens = std::min(max_m, kMostBlockTokens);
  for (const PackedFormat* f : formats) {
    std::size_t most_shared = 0;
    std::size_t most_slice = 0;
    for (const std::int64_t m : {std::int64_t{1}, kFewTokens, max_m}) {
      const MatmulPlan plan = kernels.plan(*f, compute, m);
      const std::int64_t values = std::min(
          max_m * k, std::max(most_act_bytes() / plan.value_bytes, kFewestBlockTokens * k));
      most_shared = std::max(most_shared, act_bytes(plan, values, tokens));
      most_slice = std::max(
          most_slice, aligned(to_size(plan.slice_bytes)) + aligned(to_size(plan.slice_floats) * 4));
      own = std::max(own, act_bytes(plan, kFewTokens * k, kFewTokens));
    }
    shared += most_shared;
    slice = std::max(slice, most_slice);
  }
  const std::size_t per_thread = slice +
                                 aligned(to_size(std::max(tokens, kFewTokens)) * kPanelRows * 4) +
                                 own * std::min(formats.size(), kMostFormats);
  return shared + to_size(threads) * per_thread;
}

void linear(ThreadPool& pool, const LinearWorkspace& workspace, const LinearCall& call, Tier tier) {
  check_call(call);
  if (call.m == 0) return;
  Job job = start(call, matmul_kernels(tier));
  std::int64_t value_bytes = 0;
  std::int64_t longest = 0;
  std::size_t slice_bytes = 0;
  std::size_t slice_floats = 0;
  for (std::size_t i = 0; i < job.input_count; ++i) {
    const Input& input = job.inputs[i];
    value_bytes += input.plan.value_bytes;
    longest = std::max(longest, input.k);
    slice_bytes = std::max(slice_bytes, to_size(input.plan.slice_bytes));
    slice_floats = std::max(slice_floats, to_size(input.plan.slice_floats));
  }
  const std::int64_t blocks = ceil_div(call.m, block_tokens(value_bytes, longest));
  const std::int64_t largest_block = ceil_div(call.m, blocks);

  Arena arena(workspace);
  if (!job.few)
    for (std::size_t i = 0; i < job.input_count; ++i)
      job.inputs[i].shared = take_act(arena, job.inputs[i].plan, largest_block, job.inputs[i].k);
  const auto take_scratch = [&](Arena& from) {
    Scratch s{.q = from.take<std::uint8_t>(slice_bytes),
              .scale = from.take<float>(slice_floats),
              .c = from.take<float>(to_size(largest_block) * kPanelRows),
              .act = {}};
    if (job.few)
      for (std::size_t i = 0; i < job.input_count; ++i)
        s.act[i] = take_act(from, job.inputs[i].plan, call.m, job.inputs[i].k);
    return s;
  };
  Arena first = arena;
  take_scratch(first);
  const std::size_t scratch_bytes = arena.left() - first.left();
  Arena all = arena;  // checked here: a region must not throw
  all.take<std::byte>(scratch_bytes * to_size(pool.size()));

  pool.run([&](int thread) {
    Arena own = arena;
    own.take<std::byte>(scratch_bytes * to_size(thread));
    const Scratch scratch = take_scratch(own);
    const auto range = static_split(job.panels, pool.size(), thread);
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto [begin, end] = static_split(call.m, static_cast<int>(blocks), static_cast<int>(b));
      const TokenBlock block{begin, end - begin};
      if (b > 0) pool.barrier();  // the others still read the block before
      for (std::size_t i = 0; i < job.input_count; ++i) {
        if (job.few)
          quantise(job, job.inputs[i], scratch.act[i], block, {0, 1});
        else
          quantise(job, job.inputs[i], job.inputs[i].shared, block, {thread, pool.size()});
      }
      if (!job.few) pool.barrier();
      run_panels(job, range, block, scratch);
    }
  });
}

}  // namespace ingot::cpu
