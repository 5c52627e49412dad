#pragma once

#include "base/half.h"
#include "base/threads.h"
#include "cpu/attention.h"
#include "cpu/kernel_maker.h"
#include "cpu/kv_writer.h"
#include "ops/reference/kv_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Attention steps made of numbers that depend only on (sequence, position), so that one token can
// be computed in many ways and compared.
namespace ingot::cpu {

struct AttentionConfig {
  std::int64_t heads = 9;
  std::int64_t kv_heads = 3;
  std::int64_t dim = 64;
  std::int64_t window = 0;
  std::int64_t sinks = 0;
  double softcap = 0;
  KvStore store = KvStore::kBf16;
  std::int64_t page_tokens = 64;
  std::int64_t max_context = 1024;
  double sharpness = 1.5;  // of the softmax
  bool exact = false;      // AttentionSpec::exact

  KvLayout layout() const { return {kv_heads, dim, page_tokens, store}; }
  bool sees(std::int64_t position, std::int64_t key) const {
    return key <= position && (window == 0 || position - key < window || key < sinks);
  }
  double scale() const { return sharpness / std::sqrt(static_cast<double>(dim)); }
};

inline std::string_view store_name(KvStore store) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "int8", "e4m3"};
  return kNames[static_cast<int>(store)];
}

inline std::string describe(const AttentionConfig& c) {
  return fmt::format("{}x{}/{} window {} sinks {} softcap {} {}{} pages of {} sharpness {}",
                     c.heads, c.dim, c.kv_heads, c.window, c.sinks, c.softcap, store_name(c.store),
                     c.exact ? " exact" : "", c.page_tokens, c.sharpness);
}

// Nearly normal numbers for a token: what = 0 q, 1 k, 2 v. Sums of four pieces of a mixed counter
// (splitmix64): a test makes millions.
inline std::vector<float> token_values(int sequence, std::int64_t position, int what,
                                       std::int64_t n) {
  std::uint64_t counter = (static_cast<std::uint64_t>(sequence) << 40) +
                          (static_cast<std::uint64_t>(position) << 16) +
                          (static_cast<std::uint64_t>(what) << 12);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) {
    std::uint64_t z = ++counter * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const std::uint64_t sum = (z & 0xffff) + (z >> 16 & 0xffff) + (z >> 32 & 0xffff) + (z >> 48);
    v = static_cast<float>(static_cast<std::int64_t>(sum) - 131070) * 2.6e-5f;
  }
  return values;
}

// Sequence `id` has `context` cached tokens, of which the last `queries` are asked.
struct StepSequence {
  int id = 0;
  std::int64_t context = 0;
  std::int64_t queries = 0;
};

struct StepOptions {
  int threads = 1;
  Tier tier = Tier::kGeneric;
  unsigned page_seed = 0;  // order of the pages in memory
  std::uint8_t stale = 0;  // byte that unused cache memory holds
  std::int64_t kept = 0;   // first tokens of each sequence that the cache holds, and then not
  std::int64_t lost = 0;   // those before this one
  std::int64_t max_tokens = 1024;
  std::int64_t bad_position = -1;  // a token whose first value of `bad_what` is no number
  int bad_what = 0;                // as token_values
};

// The results' rows: [tokens][heads * dim].
inline std::vector<float> run_step(const AttentionConfig& c, const std::vector<StepSequence>& step,
                                   const StepOptions& o) {
  const KvLayout layout = c.layout();
  const RowKernels& rows = row_kernels(o.tier);
  const std::int64_t width = c.max_context / c.page_tokens;
  const auto sequences = static_cast<std::int64_t>(step.size());
  std::vector<std::int32_t> order(static_cast<std::size_t>(width * sequences));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::minstd_rand(o.page_seed));
  std::vector<std::byte> memory(order.size() * static_cast<std::size_t>(layout.page_bytes()) + 64,
                                std::byte{o.stale});
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  std::byte* pages = memory.data() + ((address + 63) / 64 * 64 - address);
  std::vector<std::int32_t> start = {0};
  std::vector<std::int32_t> context;
  std::vector<float> q;
  const KvWriter writer(layout);
  const auto values_of = [&](int id, std::int64_t t, int what, std::int64_t n) {
    std::vector<float> values = token_values(id, t, what, n);
    if (t == o.bad_position && what == o.bad_what) values[0] = std::nanf("");
    return values;
  };
  for (std::int64_t s = 0; s < sequences; ++s) {
    const StepSequence& sequence = step[static_cast<std::size_t>(s)];
    for (std::int64_t t = 0; t < sequence.context; ++t) {
      if (t >= o.kept && t < o.lost) continue;
      const std::int64_t page = order[static_cast<std::size_t>(s * width + t / c.page_tokens)];
      writer.append(rows, pages, page * c.page_tokens + t % c.page_tokens,
                    values_of(sequence.id, t, 1, c.kv_heads * c.dim).data(),
                    values_of(sequence.id, t, 2, c.kv_heads * c.dim).data());
    }
    for (std::int64_t t = sequence.context - sequence.queries; t < sequence.context; ++t) {
      const std::vector<float> row = values_of(sequence.id, t, 0, c.heads * c.dim);
      q.insert(q.end(), row.begin(), row.end());
    }
    start.push_back(start.back() + static_cast<std::int32_t>(sequence.queries));
    context.push_back(static_cast<std::int32_t>(sequence.context));
  }
  ThreadPool pool(o.threads);
  Attention attention({.kv = layout,
                       .heads = c.heads,
                       .scale = c.scale(),
                       .softcap = c.softcap,
                       .window = c.window,
                       .sinks = c.sinks,
                       .max_tokens = o.max_tokens,
                       .max_sequences = 8,
                       .max_context = c.max_context,
                       .exact = c.exact},
                      pool, o.tier);
  std::vector<float> out(q.size(), -1.0f);
  // Scratch that holds numbers of an earlier step must not matter.
  std::vector<float> workspace(attention.workspace_bytes() / 4 + 16, std::nanf(""));
  const auto at = reinterpret_cast<std::uintptr_t>(workspace.data());
  attention.run({.q = q.data(),
                 .out = out.data(),
                 .query_start = start.data(),
                 .context_len = context.data(),
                 .block_table = order.data(),
                 .table_width = width,
                 .sequences = sequences,
                 .pages = pages,
                 .workspace = reinterpret_cast<std::byte*>((at + 63) / 64 * 64)});
  return out;
}

// The BF16 instructions multiply bf16 with bf16: bf16 and e4m3 caches use them.
inline bool rounds_to_bf16(const AttentionConfig& c, Tier tier) {
  const bool has_use = c.store == KvStore::kBf16 || c.store == KvStore::kE4m3;
  return tier == Tier::kAvx512Bf16 && has_use && !c.exact;
}
inline bool rounds_to_int16(const AttentionConfig& c) {
  return c.store == KvStore::kInt8 && !c.exact;
}

// K or V of a token as the cache gives it back.
inline std::vector<float> kept_values(const AttentionConfig& c, int sequence, std::int64_t position,
                                      int what) {
  std::vector<float> values = token_values(sequence, position, what, c.kv_heads * c.dim);
  if (has_scales(c.store))
    for (std::int64_t h = 0; h < c.kv_heads; ++h)
      round_kv_row(c.store == KvStore::kInt8 ? DType::kI8 : DType::kE4M3,
                   std::span(values).subspan(static_cast<std::size_t>(h * c.dim),
                                             static_cast<std::size_t>(c.dim)));
  else if (c.store == KvStore::kBf16)
    for (float& x : values) x = bf16_to_f32(f32_to_bf16(x));
  return values;
}

// A token's query as the tier keeps it.
inline std::vector<float> kept_query(const AttentionConfig& c, int sequence, std::int64_t position,
                                     Tier tier) {
  std::vector<float> q = token_values(sequence, position, 0, c.heads * c.dim);
  // Scaled for the exponential that follows: to base 2, or the softcap's (simd/attention.h).
  const double exponent = c.scale() * (c.softcap != 0 ? 1 / c.softcap : 1.4426950408889634);
  const auto by = static_cast<float>(exponent);
  if (rounds_to_bf16(c, tier))
    for (float& x : q) x = bf16_to_f32(f32_to_bf16(x * by)) / by;
  for (std::int64_t h = 0; rounds_to_int16(c) && h < c.heads; ++h) {
    const auto row =
        std::span(q).subspan(static_cast<std::size_t>(h * c.dim), static_cast<std::size_t>(c.dim));
    float top = 0;
    for (const float x : row) top = std::max(top, std::fabs(x));
    for (float& x : row)
      x = static_cast<float>(std::nearbyint(static_cast<double>(x) / top * 32767) * top / 32767);
  }
  return q;
}

// One token's row in double, over K and V as the cache keeps them and q as the tier does.
inline std::vector<double> exact_row(const AttentionConfig& c, int sequence, std::int64_t position,
                                     Tier tier) {
  const std::vector<float> q = kept_query(c, sequence, position, tier);
  std::vector<double> out(q.size(), 0.0);
  std::vector<double> sums(static_cast<std::size_t>(c.heads), 0.0);
  std::vector<double> top(static_cast<std::size_t>(c.heads), -INFINITY);
  for (std::int64_t t = 0; t <= position; ++t) {
    if (!c.sees(position, t)) continue;
    const std::vector<float> k = kept_values(c, sequence, t, 1);
    const std::vector<float> v = kept_values(c, sequence, t, 2);
    for (std::int64_t h = 0; h < c.heads; ++h) {
      const std::int64_t kv = h / (c.heads / c.kv_heads) * c.dim;
      double x = 0;
      for (std::int64_t d = 0; d < c.dim; ++d)
        x += static_cast<double>(q[static_cast<std::size_t>(h * c.dim + d)]) *
             k[static_cast<std::size_t>(kv + d)];
      x *= c.scale();
      if (c.softcap != 0) x = c.softcap * std::tanh(x / c.softcap);
      double& largest = top[static_cast<std::size_t>(h)];
      const double before = x > largest ? std::exp(largest - x) : 1;  // for what is summed so far
      largest = std::max(largest, x);
      const double p = std::exp(x - largest);
      double& sum = sums[static_cast<std::size_t>(h)];
      sum = sum * before + p;
      for (std::int64_t d = 0; d < c.dim; ++d) {
        double& to = out[static_cast<std::size_t>(h * c.dim + d)];
        to = to * before + p * v[static_cast<std::size_t>(kv + d)];
      }
    }
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] /= sums[i / static_cast<std::size_t>(c.dim)];
  return out;
}

inline std::vector<Tier> tiers_here() {
  std::vector<Tier> tiers;
  for (const Tier tier :
       {Tier::kGeneric, Tier::kAvx2, Tier::kAvx512, Tier::kAvx512Vnni, Tier::kAvx512Bf16})
    if (tier <= detected_tier()) tiers.push_back(tier);
  return tiers;
}

}  // namespace ingot::cpu
