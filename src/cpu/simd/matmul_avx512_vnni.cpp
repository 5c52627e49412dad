// The AVX-512 tier with VNNI: integer weights, as unsigned bytes, by vpdpbusd.
#include "cpu/simd/matmul_avx512.h"
#include "cpu/simd/stream_super_avx512.h"
#include "cpu/simd/tile_avx512.h"

namespace ingot::cpu {

namespace {

bool floats(const PackedFormat& f, Compute compute) {
  return f.is_float || compute == Compute::kF32;
}
// Bytes, stored as the tile reads them.
bool whole_bytes(const PackedFormat& f) {
  return f.kind == PackedKind::kInt8 || f.kind == PackedKind::kQ8_0;
}
// Few tokens read them where they lie; scales as well, but for those of super-blocks.
StreamTile stream(PackedKind kind, int tokens) {
  switch (kind) {
    case PackedKind::kQ8_0:
      return stream_tiles<PackedKind::kQ8_0>(tokens);
    case PackedKind::kInt4:
      return stream_tiles<PackedKind::kInt4>(tokens);
    case PackedKind::kQ4_0:
      return stream_tiles<PackedKind::kQ4_0>(tokens);
    case PackedKind::kQ4_1:
      return stream_tiles<PackedKind::kQ4_1>(tokens);
    case PackedKind::kIq4Nl:
      return stream_tiles<PackedKind::kIq4Nl>(tokens);
    case PackedKind::kQ4K:
      return super_tiles<PackedKind::kQ4K>(tokens);
    case PackedKind::kQ5K:
      return super_tiles<PackedKind::kQ5K>(tokens);
    case PackedKind::kQ6K:
      return super_tiles<PackedKind::kQ6K>(tokens);
    default:
      return nullptr;
  }
}
constexpr int stream_tokens(const PackedFormat& f) {
  return f.block_k == 256 ? 2 : 4;
}

// Tiles that read nibbles where they lie.
Tile nibble_tiles(PackedKind kind, int tokens) {
  constexpr UpTo8 kUpTo;
  switch (kind) {
    case PackedKind::kInt4:
      return nibble_tile<PackedKind::kInt4>(tokens, kUpTo);
    case PackedKind::kQ4_0:
      return nibble_tile<PackedKind::kQ4_0>(tokens, kUpTo);
    case PackedKind::kQ4_1:
      return nibble_tile<PackedKind::kQ4_1>(tokens, kUpTo);
    case PackedKind::kIq4Nl:
      return nibble_tile<PackedKind::kIq4Nl>(tokens, kUpTo);
    default:
      return nullptr;
  }
}

MatmulPlan plan(const PackedFormat& f, Compute compute, int64_t tokens) {
  if (floats(f, compute)) return plan_floats_avx512(f, tokens);
  const bool nibbles = nibble_tiles(f.kind, 1) != nullptr;
  const auto scale_floats = [&](int slice_k) {
    return f.group == 0 || nibbles ? 0 : slice_k / f.group * (f.has_min ? 2 : 1) * kPanelRows;
  };
  if (tokens <= stream_tokens(f) && stream(f.kind, 1) != nullptr)
    return {.tile_tokens = stream_tokens(f),
            .slice_k = 512,  // as far as the prefetch runs ahead
            .value_bytes = 1,
            .slice_bytes = 0,
            .slice_floats = f.block_k == 256 ? scale_floats(512) : 0,
            .in_place = true};
  // Short slices for few tokens: loading and arithmetic alternate in L1 and memory never rests.
  // Long ones for many: the sums of a tile stay in L1 meanwhile.
  const int slice_k = tokens <= kFewTiles * kTokens512 ? 512 : 2048;
  return {.tile_tokens = f.group == 0 ? kTokens512 : kTokensGroups,
          .slice_k = slice_k,
          .value_bytes = 1,
          .slice_bytes = whole_bytes(f) || nibbles ? 0 : slice_k * kPanelRows,
          .slice_floats = scale_floats(slice_k),
          .in_place = whole_bytes(f) || nibbles};
}

void quantise(const QuantiseCall& call) {
  if (floats(*call.format, call.compute)) return quantise_floats_avx512(call);
  quantise_bytes_avx512(call);
}

constexpr int kScaleBytes = 64;  // of a q8_0 block

// Values lie as they are read; the scales are halves.
void expand_scales(const ExpandCall& call) {
  const uint8_t* block = call.blocks;
  float* scale = call.scale;
  const int bytes = packed_block_bytes(*call.format);
  for (int64_t k = 0; k < call.k; k += call.format->block_k, block += bytes, scale += kPanelRows) {
    _mm512_store_ps(scale, half16(block));
    _mm512_store_ps(scale + 16, half16(block + 32));
  }
}

void expand(const ExpandCall& call) {
  const PackedKind kind = call.format->kind;
  if (call.compute == Compute::kNative) {
    if (call.in_place && call.format->block_k == 256) return expand_super_scales_avx2(call);
    switch (kind) {
      case PackedKind::kInt8:
        return;
      case PackedKind::kQ8_0:
        return expand_scales(call);
      case PackedKind::kIq4Xs:
        return expand_iq4_xs_bytes_avx2(call);
      default:
        break;
    }
  }
  kMatmulAvx2.expand(call);
}

// Formats of equal arithmetic share their code.
Tile integer_tile(PackedKind kind, int tokens) {
  constexpr UpTo14 kUpTo;
  switch (kind) {
    case PackedKind::kInt8:
      return sums_tile<kDotBytes, 16>(tokens, kUpTo);
    case PackedKind::kQ8_0:
      return group_tile<kDotBytes, PackedKind::kQ8_0>(tokens, kUpTo);
    case PackedKind::kIq4Xs:
      return group_tile<kDotBytes, PackedKind::kQ4_0>(tokens, kUpTo);
    case PackedKind::kQ4K:
      return group_tile<kDotBytes, PackedKind::kQ4_1>(tokens, kUpTo);
    case PackedKind::kQ5_0:
      return group_tile<kDotBytes, PackedKind::kQ5_0>(tokens, kUpTo);
    case PackedKind::kQ5_1:
    case PackedKind::kQ5K:
      return group_tile<kDotBytes, PackedKind::kQ5_1>(tokens, kUpTo);
    case PackedKind::kQ2K:
      return group_tile<kDotBytes, PackedKind::kQ2K>(tokens, kUpTo);
    case PackedKind::kQ3K:
      return group_tile<kDotBytes, PackedKind::kQ3K>(tokens, kUpTo);
    case PackedKind::kQ6K:
      return group_tile<kDotBytes, PackedKind::kQ6K>(tokens, kUpTo);
    default:
      return nullptr;
  }
}

void tile(const TileCall& call) {
  const PackedFormat& f = *call.format;
  if (floats(f, call.compute)) return tile_floats_avx512(call);
  if (call.in_place && call.act.tokens <= stream_tokens(f))
    if (const StreamTile run = stream(f.kind, call.act.tokens)) return run(call);
  if (const Tile run = nibble_tiles(f.kind, call.act.tokens))
    return run(call, stream_of(call, call.q, packed_block_bytes(f), call.k / f.group));
  const Tile run = integer_tile(f.kind, call.act.tokens);
  if (f.group == 0) return run(call, stream_of(call, call.q, 32 * kPanelRows, call.k / 32));
  const bool bytes = f.kind == PackedKind::kQ8_0;
  const uint8_t* q = bytes ? call.q + kScaleBytes : call.q;
  const int64_t group_bytes = bytes ? packed_block_bytes(f) : f.group * kPanelRows;
  run(call, stream_of(call, q, group_bytes, call.k / f.group));
}

}  // namespace

const MatmulKernels kMatmulAvx512Vnni = {
    .plan = plan, .quantise = quantise, .expand = expand, .tile = tile, .finish = finish_avx512};

}  // namespace ingot::cpu
