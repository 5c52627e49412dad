#pragma once

#include "cuda/device/launch.cuh"

namespace ingot::cuda {

struct AttentionParams {
  const void* q;           // [rows, HEADS * HEAD_DIM]
  const int* query_start;  // [sequences + 1]
  const int* context_len;  // [sequences]
  const int* block_table;  // [sequences, table_width]
  const void* pages;       // KvPage
  void* out;               // [rows, HEADS * HEAD_DIM]
  int sequences;
  int table_width;
  float scale;    // on q.k
  float softcap;  // used when SOFTCAP

  // On tensor cores alone. Where blocks sum one split each: [rows, HEADS, splits] sums, HEAD_DIM
  // numbers and their softmax.
  float* partial;
  int splits;  // of the longest sequence; 1: a block sums all splits of its row
  int merges;  // whether this launch merges what the one before left
};

inline constexpr int kAttentionThreads = 128;

// The cut of every sequence on tensor cores, at multiples of it. It decides bits.
inline constexpr int kSplitTokens = 512;
// Query heads of one block there, the columns of a product.
inline constexpr int kSliceHeads = 8;

}  // namespace ingot::cuda
