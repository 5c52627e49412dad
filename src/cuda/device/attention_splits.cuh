#pragma once

#include "cuda/device/attention_params.cuh"
#include "cuda/device/kv_page.cuh"
#include "cuda/device/kv_pairs.cuh"
#include "cuda/device/reduce.cuh"
#include "cuda/device/sequence.cuh"

// Attention over a paged KV state on tensor cores. A sequence's tokens are cut into splits of
// kSplitTokens that begin at multiples of it; the splits of a row are summed one by one and then
// merged in order, either by the block that summed them all or, where few rows would leave the GPU
// idle, by a second launch after one block a split. Both ways do the same arithmetic, so a row's
// bits depend on its own tokens alone.
namespace ingot::cuda {

// A query row and head: what its softmax has seen so far, in units of log2.
struct Softmax {
  float largest;
  float denominator;
};

// How much of two sums remains when they become one.
struct Shares {
  float old_one;
  float new_one;
};
__device__ inline Shares merge(Softmax& all, Softmax next) {
  const float largest = fmaxf(all.largest, next.largest);
  const Shares shares = {exp2_fast(all.largest - largest), exp2_fast(next.largest - largest)};
  all.denominator =
      fmaf(all.denominator, shares.old_one, __fmul_rn(next.denominator, shares.new_one));
  all.largest = largest;
  return shares;
}
__device__ inline void merge(float2& all, float2 next, Shares shares) {
  all.x = fmaf(all.x, shares.old_one, __fmul_rn(next.x, shares.new_one));
  all.y = fmaf(all.y, shares.old_one, __fmul_rn(next.y, shares.new_one));
}

// One block: a row of queries and up to kSliceHeads query heads that share a KV head. Each warp
// takes every kWarps-th tile of kTileTokens. K of a tile is the A operand of S' = K Q' and V that
// of O' = V' P', so that the columns of both are query heads.
template <typename Shape>
class SplitAttention {
 public:
  using Kv = typename Shape::Kv;
  using Page = KvPage<Shape::kKvHeads, Shape::kHeadDim, Shape::kPageTokens, Kv>;
  static constexpr int kDim = Shape::kHeadDim;
  static constexpr int kGroup = Shape::kHeads / Shape::kKvHeads;
  static constexpr int kSlices = (kGroup + kSliceHeads - 1) / kSliceHeads;
  static constexpr int kColumns = kGroup < kSliceHeads ? kGroup : kSliceHeads;
  static constexpr int kWarps = kAttentionThreads / 32;
  static constexpr int kTileTokens = 16;
  static constexpr int kWarpTiles = kSplitTokens / kTileTokens / kWarps;  // of one split

  struct Shared {
    Vector16 queries[kDim / 32][32];  // eight dimensions of each lane
    float2 sums[kWarps][kColumns][kDim / 2];
    Softmax softmax[kWarps][kSliceHeads];
    float warp_share[kWarps][kColumns];
    Softmax all[kColumns];
    Shares shares[kColumns];
  };

  __device__ SplitAttention(const AttentionParams& p, Shared& shared, int row, int slice)
      : p_(p),
        shared_(shared),
        warp_(threadIdx.x / 32),
        g_(threadIdx.x % 32 / 4),
        q_(threadIdx.x % 4),
        row_(row),
        kv_head_(slice / kSlices),
        first_head_(kv_head_ * kGroup + slice % kSlices * kSliceHeads),
        columns_(min(kColumns, (kv_head_ + 1) * kGroup - first_head_)) {
    load_queries();  // on its way while the sequence is looked for
    const int sequence = sequence_of(p.query_start, p.sequences, row);
    position_ = p.context_len[sequence] - p.query_start[sequence + 1] + row;
    oldest_ = Shape::kWindow > 0 ? max(0, position_ - Shape::kWindow + 1) : 0;
    table_ = p.block_table + static_cast<i64>(sequence) * p.table_width;
  }

  __device__ int first_split() const { return oldest_ / kSplitTokens; }
  __device__ int last_split() const { return position_ / kSplitTokens; }

  // One after another.
  __device__ void attend_to_all() {
    start();
    float2 total[kPairs] = {};
    for (int split = first_split(); split <= last_split(); ++split) {
      sum_split(split);
      for_each_pair([&](int i, int column, int pair) {
        merge(total[i], sum_of_warps(column, pair), shared_.shares[column]);
      });
    }
    for_each_pair([&](int i, int column, int pair) {
      store(first_head_ + column, pair, total[i], shared_.all[column].denominator);
    });
  }

  __device__ void attend_to(int split) {
    if (split < first_split() || split > last_split()) return;
    start();
    sum_split(split);
    for_each_pair([&](int, int column, int pair) {
      if (column >= columns_) return;
      partial(first_head_ + column, split)[pair] = sum_of_warps(column, pair);
    });
    // Merged with nothing, which changes no bit.
    if (threadIdx.x < columns_)
      *partial_softmax(first_head_ + threadIdx.x, split) = shared_.all[threadIdx.x];
  }

  // By a block of one head: what attend_to() left.
  __device__ void merge_splits(int head) {
    constexpr int kAhead = 8;
    const int pair = threadIdx.x;
    if (pair >= kDim / 2) return;
    Softmax all = {minus_infinity(), 0};
    float2 total = {0, 0};
    for (int begin = first_split(); begin <= last_split(); begin += kAhead) {
      Softmax softmax[kAhead];
      float2 sums[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        const int split = min(begin + i, last_split());
        softmax[i] = *partial_softmax(head, split);
        sums[i] = partial(head, split)[pair];
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        if (begin + i <= last_split()) merge(total, sums[i], merge(all, softmax[i]));
    }
    store(head, pair, total, all.denominator);
  }

 private:
  // Dimensions are dealt to lanes so that each loads several at once: lane q has kUnitK of every
  // 4 kUnitK ones of K, lane g kUnitV of every 8 kUnitV ones of V. The order inside a product is
  // free, that of results is undone where they are stored.
  static constexpr int kUnitK = sizeof(Kv) == 1 && kDim % 64 == 0 ? 16 : 8;
  static constexpr int kUnitV = sizeof(Kv) == 1 && kDim % 128 == 0 ? 16 : kDim % 64 == 0 ? 8 : 4;
  static constexpr int kBlocksK = kDim / (4 * kUnitK);
  static constexpr int kBlocksV = kDim / (8 * kUnitV);
  static constexpr int kWarpQueries = (kDim / 32 + kWarps - 1) / kWarps;
  static constexpr int kWordsK = kUnitK * sizeof(Kv) / 4;
  static constexpr int kWordsV = kUnitV * sizeof(Kv) / 4;
  static constexpr int kPairs =
      (kColumns * kDim / 2 + kAttentionThreads - 1) / kAttentionThreads;  // a thread's results / 2

  struct TileK {
    u32 words[kBlocksK][2][kWordsK];  // of tokens g and g + 8
    float scale[2];
  };
  struct TileV {
    u32 words[kBlocksV][4][kWordsV];  // of tokens 2 q, 2 q + 1, 2 q + 8, 2 q + 9
    float scale[2];                   // of tokens g and g + 8
  };

  template <typename Visit>
  __device__ void for_each_pair(Visit visit) const {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int at = threadIdx.x + i * kAttentionThreads;
      if (kColumns * kDim / 2 % kAttentionThreads == 0 || at < kColumns * kDim / 2)
        visit(i, at / (kDim / 2), at % (kDim / 2));
    }
  }

  __device__ float2* partial(int head, int split) const {
    const i64 at = (static_cast<i64>(row_) * Shape::kHeads + head) * p_.splits + split;
    return reinterpret_cast<float2*>(p_.partial) + at * (kDim / 2 + 1);
  }
  __device__ Softmax* partial_softmax(int head, int split) const {
    return reinterpret_cast<Softmax*>(partial(head, split) + kDim / 2);
  }
  __device__ void store(int head, int pair, float2 sum, float denominator) const {
    if (head >= first_head_ + columns_) return;
    using Out = typename Shape::Out;
    Out* out = static_cast<Out*>(p_.out) + (static_cast<i64>(row_) * Shape::kHeads + head) * kDim +
               2 * pair;
    // As with silu(), no exact division.
    out[0] = from_float<Out>(__fdividef(sum.x, denominator));
    out[1] = from_float<Out>(__fdividef(sum.y, denominator));
  }

  // As B: column g is a head, zero where there is none. In shared memory, which spares registers.
  __device__ void load_queries() {
    const bf16* row = static_cast<const bf16*>(p_.q) +
                      (static_cast<i64>(row_) * Shape::kHeads + first_head_ + g_) * kDim;
#pragma unroll
    for (int i = 0; i < kWarpQueries; ++i) {
      const int at = 8 * (warp_ + i * kWarps);  // in a lane's dimensions
      queries_[i] = {};
      if (g_ < columns_ && at < kDim / 4)
        load_words(row + at / kUnitK * 4 * kUnitK + kUnitK * q_ + at % kUnitK, queries_[i].words);
    }
  }
  __device__ void start() {
    if (threadIdx.x < kColumns) shared_.all[threadIdx.x] = {minus_infinity(), 0};
#pragma unroll
    for (int i = 0; i < kWarpQueries; ++i) {
      const int at = warp_ + i * kWarps;
      if (at < kDim / 32) shared_.queries[at][threadIdx.x % 32] = queries_[i];
    }
    __syncthreads();
  }

  // shares and all: this split merged into those before; sums: of each warp; warp_share: of each in
  // the split's sum.
  __device__ void sum_split(int split) {
    float sums[kDim / 16][4] = {};
    Softmax softmax[2] = {{minus_infinity(), 0}, {minus_infinity(), 0}};
    sum_tiles(split, sums, softmax);
    __syncthreads();  // what the split before left has been read
    put_sums(sums, softmax);
    __syncthreads();
    if (threadIdx.x < kColumns) share_out(threadIdx.x);
    __syncthreads();
  }

  __device__ void sum_tiles(int split, float (&sums)[kDim / 16][4], Softmax (&softmax)[2]) {
    // Tiles of this warp with visible tokens.
    const int base = split * kSplitTokens + warp_ * kTileTokens;
    constexpr int kStride = kWarps * kTileTokens;
    int first = 0;
    int last = kWarpTiles - 1;
    while (first <= last && base + first * kStride + kTileTokens <= oldest_) ++first;
    while (last >= first && base + last * kStride > position_) --last;
    if (first > last) return;
    // Lane i knows the page of tile i.
    const int mine = base + static_cast<int>(threadIdx.x % 32) * kStride;
    int page = 0;
    if (threadIdx.x % 32 < kWarpTiles && mine <= position_ && mine + kTileTokens > oldest_)
      page = table_[mine / Shape::kPageTokens];

    const auto page_of = [&](int i) { return __shfl_sync(0xffffffffu, page, min(i, last)); };
    TileK k;
    TileV v;
    load_k(k, page_of(first), base + first * kStride);
    if constexpr (kAhead == 2) load_v(v, page_of(first), base + first * kStride);
#pragma unroll 1
    for (int i = first; i <= last; ++i) {
      const int begin = base + i * kStride;
      const int next = page_of(i + 1);
      if constexpr (kAhead == 1) load_v(v, page_of(i), begin);
      float scores[4];
      multiply_k(k, scores);
      TileV next_v;
      if constexpr (kAhead > 0) {
        if (i < last) load_k(k, next, begin + kStride);
        if (kAhead == 2 && i < last) load_v(next_v, next, begin + kStride);
      } else {
        load_v(v, page_of(i), begin);
      }
      u32 weights[2];
      float keep[2];
      weigh(begin, scores, v.scale, softmax, weights, keep);
      multiply_v(v, begin, weights, keep, sums);
      if constexpr (kAhead == 2) v = next_v;
      if constexpr (kAhead == 0) {
        if (i < last) load_k(k, next, begin + kStride);
      }
    }
#pragma unroll
    for (int e = 0; e < 2; ++e)
#pragma unroll
      for (int offset = 4; offset < 32; offset *= 2)
        softmax[e].denominator += __shfl_xor_sync(0xffffffffu, softmax[e].denominator, offset);
  }

  // What registers have room for beside the sums: 1 K of the next tile and V of this one, 2 V of
  // the next one too.
  static constexpr int kAhead = kDim > 128 ? 0 : kDim * sizeof(Kv) > 128 ? 1 : 2;

  __device__ void load_k(TileK& k, int page, int begin) const {
    const Kv* rows = static_cast<const Kv*>(p_.pages) +
                     Page::row(page, kv_head_, begin % Shape::kPageTokens + g_) + kUnitK * q_;
#pragma unroll
    for (int block = 0; block < kBlocksK; ++block)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        load_words(rows + half * 8 * kDim + block * 4 * kUnitK, k.words[block][half]);
    if constexpr (Page::kScaled) load_scales(k.scale, page, begin, false);
  }
  __device__ void load_v(TileV& v, int page, int begin) const {
    const Kv* rows = static_cast<const Kv*>(p_.pages) +
                     Page::row(page, kv_head_, begin % Shape::kPageTokens + 2 * q_) +
                     Page::kVOffset + kUnitV * g_;
#pragma unroll
    for (int block = 0; block < kBlocksV; ++block)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        load_words(rows + (i / 2 * 8 + i % 2) * kDim + block * 8 * kUnitV, v.words[block][i]);
    if constexpr (Page::kScaled) load_scales(v.scale, page, begin, true);
  }
  // Of tokens g and g + 8.
  __device__ void load_scales(float (&scale)[2], int page, int begin, bool of_v) const {
    const int token = begin % Shape::kPageTokens + g_;
    scale[0] = Page::scale(p_.pages, page, kv_head_, token, of_v);
    scale[1] = Page::scale(p_.pages, page, kv_head_, token + 8, of_v);
  }

  __device__ void multiply_k(const TileK& k, float (&scores)[4]) const {
    float halves[2][4] = {};  // two chains, as a product waits for the one before
#pragma unroll
    for (int at = 0; at < kDim / 32; ++at) {
      const Vector16 queries = shared_.queries[at][threadIdx.x % 32];
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const int pair = at % (kUnitK / 8) * 4 + 2 * step;
        u32 a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[i] = neighbours<Kv>(k.words[at / (kUnitK / 8)][i % 2], pair + i / 2);
        mma_bf16(halves[step], a, queries.words[2 * step], queries.words[2 * step + 1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[i] = (halves[0][i] + halves[1][i]) * p_.scale;
      if constexpr (Page::kScaled) scores[i] *= k.scale[i / 2];
    }
  }

  // Scores of tokens g and g + 8 (in pairs) for heads 2 q and 2 q + 1 become weights, ready as B.
  __device__ void weigh(int begin, const float (&scores)[4], const float (&v_scale)[2],
                        Softmax (&softmax)[2], u32 (&weights)[2], float (&keep)[2]) const {
    constexpr float kLog2E = 1.4426950408889634f;
    float x[4];
    bool visible[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = begin + g_ + 8 * half;
      visible[half] = at >= oldest_ && at <= position_;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float score = scores[i];
      if constexpr (Shape::kSoftcap) score = p_.softcap * tanhf(score / p_.softcap);
      x[i] = visible[i / 2] ? score * kLog2E : minus_infinity();
    }
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float largest = fmaxf(x[e], x[e + 2]);
#pragma unroll
      for (int offset = 4; offset < 32; offset *= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
      // Every tile here holds a visible token, so this is finite.
      largest = fmaxf(largest, softmax[e].largest);
      keep[e] = exp2_fast(softmax[e].largest - largest);
      softmax[e].largest = largest;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float& weight = x[e + 2 * half];
        weight = exp2_fast(weight - largest);
      }
      softmax[e].denominator = fmaf(softmax[e].denominator, keep[e], x[e] + x[e + 2]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if constexpr (Page::kScaled) {
        // The scale of a token that is not there may be no number.
        const float scale = visible[half] ? v_scale[half] : 0.0f;
        x[2 * half] *= scale;
        x[2 * half + 1] *= scale;
      }
      weights[half] = transposed(pack_bf16(x[2 * half], x[2 * half + 1]));
    }
  }

  __device__ void multiply_v(TileV& v, int begin, const u32 (&weights)[2], const float (&keep)[2],
                             float (&sums)[kDim / 16][4]) const {
    // Memory of tokens that are not there may hold what is no number, which 0 does not cancel;
    // codes of 8 bits are all numbers.
    if (!Page::kScaled && (begin < oldest_ || begin + kTileTokens > position_ + 1)) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = begin + 2 * q_ + i / 2 * 8 + i % 2;
        if (at >= oldest_ && at <= position_) continue;
#pragma unroll
        for (int block = 0; block < kBlocksV; ++block)
#pragma unroll
          for (int w = 0; w < kWordsV; ++w) v.words[block][i][w] = 0;
      }
    }
#pragma unroll
    for (int block = 0; block < kBlocksV; ++block)
#pragma unroll
      for (int j = 0; j < kUnitV / 2; ++j) {
        float(&c)[4] = sums[block * (kUnitV / 2) + j];
#pragma unroll
        for (int e = 0; e < 4; ++e) c[e] *= keep[e % 2];
        u32 a[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[i] =
              beside<Kv>(v.words[block][i / 2 * 2], v.words[block][i / 2 * 2 + 1], 2 * j + i % 2);
        mma_bf16(c, a, weights[0], weights[1]);
      }
  }

  __device__ void put_sums(const float (&sums)[kDim / 16][4], const Softmax (&softmax)[2]) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int column = 2 * q_ + e;
      if (column >= kColumns) continue;
      if (g_ == 0) shared_.softmax[warp_][column] = softmax[e];
#pragma unroll
      for (int tile = 0; tile < kDim / 16; ++tile) {
        // Rows g and g + 8 of this product are two dimensions that follow one another.
        const int block = tile / (kUnitV / 2);
        const int pair = (block * 8 * kUnitV + kUnitV * g_) / 2 + tile % (kUnitV / 2);
        shared_.sums[warp_][column][pair] = {sums[tile][e], sums[tile][e + 2]};
      }
    }
  }

  __device__ void share_out(int column) {
    float largest = shared_.softmax[0][column].largest;
#pragma unroll
    for (int w = 1; w < kWarps; ++w) largest = fmaxf(largest, shared_.softmax[w][column].largest);
    float denominator = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const Softmax one = shared_.softmax[w][column];
      const float share = exp2_fast(one.largest - largest);
      shared_.warp_share[w][column] = share;
      denominator = fmaf(one.denominator, share, denominator);
    }
    shared_.shares[column] = merge(shared_.all[column], {largest, denominator});
  }

  __device__ float2 sum_of_warps(int column, int pair) const {
    float2 sum = {0, 0};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float2 one = shared_.sums[w][column][pair];
      const float share = shared_.warp_share[w][column];
      sum.x = fmaf(one.x, share, sum.x);
      sum.y = fmaf(one.y, share, sum.y);
    }
    return sum;
  }

  const AttentionParams& p_;
  Shared& shared_;
  const int warp_, g_, q_;
  const int row_, kv_head_, first_head_, columns_;
  int position_, oldest_;
  const int* table_;
  Vector16 queries_[kWarpQueries];  // of this warp's blocks, until start()
};

}  // namespace ingot::cuda
