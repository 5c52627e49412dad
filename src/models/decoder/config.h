#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ingot {

enum class RopeScaling : std::uint8_t { kNone, kLinear, kDynamic, kYarn, kLlama3, kLongRope };

// Rotary position embedding (Su et al., 2021) and its extensions, as published with the models.
struct RopeConfig {
  std::int64_t rotary_dim = 0;
  bool interleaved = false;  // pairs (2i, 2i+1) instead of (i, i + rotary_dim / 2)
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;
  std::int64_t original_max_position = 0;
  double low_freq_factor = 1.0;            // llama3
  double high_freq_factor = 4.0;           // llama3
  double beta_fast = 32.0;                 // yarn
  double beta_slow = 1.0;                  // yarn
  bool truncate = true;                    // yarn: whole dimensions at the ramp's ends
  std::optional<double> attention_factor;  // yarn, longrope: on cos and sin
  double mscale = 0;                       // yarn
  double mscale_all_dim = 0;               // yarn
  std::vector<double> short_factors;       // longrope, rotary_dim / 2
  std::vector<double> long_factors;        // longrope, rotary_dim / 2
  std::vector<double> divisors;  // GGUF's rope_freqs: each frequency is divided by its own
};

enum class Presence : std::uint8_t { kAbsent, kRequired, kAsFound };

// A decoder of the Llama kind: everything that its graph and weights depend on.
struct DecoderConfig {
  std::string family;        // stem in models/
  std::string architecture;  // the checkpoint's own word
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t intermediate = 0;
  std::int64_t max_position = 0;
  double rms_eps = 1e-5;
  std::vector<std::int64_t> windows;  // by layer: tokens seen, the current one included; 0 is all
  std::int64_t sink_tokens = 0;       // of layers with a window: first tokens seen in spite of it
  RopeConfig rope;
  Presence qkv_bias = Presence::kAbsent;
  Presence o_bias = Presence::kAbsent;
  Presence mlp_bias = Presence::kAbsent;
  // True: the head is the embedding, whatever the file holds. False: the head must be there. Unset:
  // as found.
  std::optional<bool> tied;
  std::vector<std::int32_t> eos_ids;  // of config.json; generation_config.json may say more
  std::optional<std::int32_t> bos_id;
};

// Inverse frequencies for every position, computed in double.
struct RopeTables {
  std::vector<std::vector<float>> rows;  // [1 or 2][rotary_dim / 2]
  double scale = 1.0;                    // on cos and sin
  // Requests whose prompt and answer may be longer than this use row 1; 0: there is one row.
  std::int64_t long_from = 0;
};

// Throws Error{kBadInput} when the factors do not fit the dimension.
RopeTables rope_tables(const RopeConfig& rope, std::int64_t max_position, std::int64_t max_seq);

}  // namespace ingot
