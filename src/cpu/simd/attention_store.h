#pragma once

// What a KV cache keeps, as floats: one struct a KvStore, for attention in f32. Over the vectors of
// the vec_*.h included before.
#include "cpu/simd/attention.h"

namespace ingot::cpu {
namespace {

struct StoreF32 {
  static constexpr KvStore kStore = KvStore::kF32;
  static Vec values(const uint8_t* p) { return load(reinterpret_cast<const float*>(p)); }
  static float value(const uint8_t* p) {
    float x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
};

// `pairs`: kLanes pairs of values beside each other; `values`: kLanes of a row.
struct StoreBf16 {
  static constexpr KvStore kStore = KvStore::kBf16;
  static void pairs(const uint8_t* p, Vec& even, Vec& odd) {
    split_bf16(load(reinterpret_cast<const float*>(p)), even, odd);
  }
  static Vec values(const uint8_t* p) { return load_bf16(reinterpret_cast<const uint16_t*>(p)); }
  static float value(const uint8_t* p) {
    uint16_t half;
    __builtin_memcpy(&half, p, sizeof half);
    return __builtin_bit_cast(float, static_cast<uint32_t>(half) << 16);
  }
};

struct StoreInt8 {
  static constexpr KvStore kStore = KvStore::kInt8;
  static void pairs(const uint8_t* p, Vec& even, Vec& odd) {
    split_int16(int8_words(p), even, odd);
  }
};

struct StoreE4m3 {
  static constexpr KvStore kStore = KvStore::kE4m3;
  static void pairs(const uint8_t* p, Vec& even, Vec& odd) { split_bf16(e4m3_words(p), even, odd); }
};

}  // namespace
}  // namespace ingot::cpu
