#pragma once

#include <cstdint>
#include <string>
#include <vector>

// The attribute structs of all ops that have any: what builders write and kernels read.
namespace ingot {

struct EmbedAttrs {
  std::string out = "f32";  // dtype of the result
  template <typename Visitor>
  void visit(Visitor& v) {
    v("out", out);
  }
};

struct RmsNormAttrs {
  double eps = 1e-5;
  template <typename Visitor>
  void visit(Visitor& v) {
    v("eps", eps);
  }
};

// Rotation of pairs: interleaved (2i, 2i+1) as in Meta's and GGUF's Llama, or half (i, i +
// rotary_dim / 2) as in HF's.
struct RopeAttrs {
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;  // the first rotary_dim values of a head turn, the rest stay
  bool interleaved = false;
  double scale = 1.0;  // on cos and sin (yarn's and longrope's attention factor)
  template <typename Visitor>
  void visit(Visitor& v) {
    v("head_dim", head_dim);
    v("rotary_dim", rotary_dim);
    v("interleaved", interleaved);
    v("scale", scale);
  }
};

struct RopeKvAppendAttrs {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  RopeAttrs rope;
  template <typename Visitor>
  void visit(Visitor& v) {
    v("heads", heads);
    v("kv_heads", kv_heads);
    rope.visit(v);
  }
};

struct AttentionAttrs {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  double scale = 0;         // on q.k, usually head_dim^-0.5
  std::int64_t window = 0;  // tokens seen, the current one included; 0 is all
  double softcap = 0;       // c * tanh(x / c); 0 is none
  // First tokens of the sequence, seen though the window has passed them (StreamingLLM; Xiao et
  // al., 2024).
  std::int64_t sink_tokens = 0;
  template <typename Visitor>
  void visit(Visitor& v) {
    v("heads", heads);
    v("kv_heads", kv_heads);
    v("head_dim", head_dim);
    v("scale", scale);
    v("window", window);
    v("softcap", softcap);
    v.optional("sink_tokens", sink_tokens);
  }
};

// What a linear does to its result before storing it.
struct LinearAttrs {
  bool bias = false;      // operand 2 is f32[n] (f32[2n] with swiglu, in the weight's row order)
  bool residual = false;  // last operand is added: [rows, n]
  bool swiglu = false;  // weight rows are gate and up, interleaved: result[j] = silu(gate j) * up j
  std::string out = "f32";  // dtype of the result
  template <typename Visitor>
  void visit(Visitor& v) {
    v("bias", bias);
    v("residual", residual);
    v("swiglu", swiglu);
    v("out", out);
  }
};

// Rows of gate and up taken in turn by merges with swiglu (WeightRecipe::interleave).
inline constexpr std::int64_t kGateUpInterleave = 16;

struct SplitAttrs {
  std::vector<std::int64_t> sizes;  // columns of each result
  template <typename Visitor>
  void visit(Visitor& v) {
    v("sizes", sizes);
  }
};

struct CastAttrs {
  std::string to = "f32";
  template <typename Visitor>
  void visit(Visitor& v) {
    v("to", to);
  }
};

}  // namespace ingot
