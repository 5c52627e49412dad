#include "ops/ops.h"

#include "base/error.h"
#include "ops/attrs.h"
#include "ops/reference/compose.h"
#include "ops/reference/evaluate.h"
#include "ops/reference/kv_row.h"
#include "ops/reference/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace ingot {
namespace {

RefTensor normals(const Shape& shape, unsigned seed) {
  RefTensor t = make_ref(shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& x : t.f) x = normal(random);
  return t;
}

RefTensor integers(std::vector<std::int32_t> values) {
  RefTensor t;
  t.shape = {static_cast<std::int64_t>(values.size())};
  t.i = std::move(values);
  return t;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "at " << i;
}

TEST(Ops, ListIsSortedAndFindsByName) {
  const OpTable ops = all_ops();
  ASSERT_GE(ops.size(), 13u);
  for (std::size_t i = 1; i < ops.size(); ++i) EXPECT_LT(ops[i - 1]->name, ops[i]->name);
  EXPECT_EQ(op("rope").name, "rope");
  try {
    op("conv3d");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kBadInput);
    EXPECT_NE(e.message().find("rms_norm"), std::string::npos) << "names what is known";
  }
}

// Every case is a valid call: shapes infer, results have the row operand's rows.
TEST(Ops, EveryCaseInfers) {
  for (const OpDef* op : all_ops()) {
    const std::vector<OpCase> cases = op->cases();
    EXPECT_GE(cases.size(), 3u) << op->name;
    for (const OpCase& c : cases) {
      std::vector<ValueType> types;
      for (const OperandCase& o : c.operands) types.push_back(o.type);
      std::vector<ValueType> results;
      ASSERT_NO_THROW(results = op->infer(c.attrs, types)) << op->name << "/" << c.name;
      if (op->row_operand < 0) continue;
      for (const ValueType& r : results)
        EXPECT_EQ(r.dims[0], types[static_cast<std::size_t>(op->row_operand)].dims[0]) << op->name;
    }
  }
}

// Each operand in turn made wrong: the shape rule refuses, naming the op.
TEST(Ops, ShapeRulesRefuseWrongOperands) {
  for (const OpDef* op : all_ops()) {
    const OpCase c = op->cases().at(0);
    std::vector<ValueType> types;
    for (const OperandCase& o : c.operands) types.push_back(o.type);
    const auto refuses = [&](const std::vector<ValueType>& wrong, const Attrs& attrs) {
      try {
        op->infer(attrs, wrong);
        return false;
      } catch (const Error& e) {
        return e.code() == ErrorCode::kBug ||
               e.message().starts_with("[op." + std::string(op->name) + "]");
      }
    };
    for (std::size_t i = 0; i < types.size(); ++i) {
      std::vector<ValueType> wrong = types;
      wrong[i].dims.emplace_back(3);
      if (wrong[i].state == StateSpec{}) {
        EXPECT_TRUE(refuses(wrong, c.attrs)) << op->name << " rank of operand " << i;
      }
      wrong = types;
      wrong[i] = {};
      wrong[i].dtype = DType::kBool;
      EXPECT_TRUE(refuses(wrong, c.attrs)) << op->name << " kind of operand " << i;
    }
    std::vector<ValueType> fewer(types.begin(), types.end() - 1);
    EXPECT_TRUE(refuses(fewer, c.attrs)) << op->name;
    Attrs more = c.attrs;
    more.set("zzz", true);
    EXPECT_TRUE(refuses(types, more)) << op->name << " unknown attribute";
  }
}

TEST(Ops, SizesThatOverflowAreRefused) {
  std::vector<ValueType> types;
  const OpCase c = op("attention").cases().at(0);
  for (const OperandCase& o : c.operands) types.push_back(o.type);
  AttentionAttrs a{.heads = INT64_MAX, .kv_heads = INT64_MAX, .head_dim = INT64_MAX};
  EXPECT_THROW(op("attention").infer(write_attrs(a), types), Error);
  SplitAttrs s{.sizes = {INT64_MAX, INT64_MAX, 2}};
  EXPECT_THROW(op("split").infer(write_attrs(s), std::span(types.data(), 1)), Error);
}

TEST(Ops, RmsNormOfConstantsIsTheWeight) {
  RefTensor x = make_ref({2, 4}), out = x;
  std::fill(x.f.begin(), x.f.end(), -3.0f);
  const RefTensor w = normals({4}, 1);
  call_reference("rms_norm", write_attrs(RmsNormAttrs{.eps = 0}), {&x, &w}, out);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_FLOAT_EQ(out.f[i], -w.f[i % 4]);
}

struct RopeSetUp {
  RefTensor positions = integers({0, 1, 77, 4095});
  RefTensor row = integers({0, 0, 0, 0});
  RefTensor inv_freq;
  RopeSetUp() {
    const OperandCase table = sample::frequencies(1, 4);
    inv_freq = make_ref({1, 4});
    inv_freq.f = table.given_f;
  }
  RefTensor turn(const RefTensor& x, const RopeAttrs& attrs) const {
    RefTensor out = make_ref(x.shape);
    call_reference("rope", write_attrs(attrs), {&x, &positions, &inv_freq, &row}, out);
    return out;
  }
};

// The two styles differ by a permutation of a head's values.
TEST(Ops, RopeStylesAgreeUnderPermutation) {
  const RopeSetUp r;
  const RefTensor x = normals({4, 16}, 2);           // two heads of 8
  const auto permuted = [](const RefTensor& from) {  // half style to interleaved
    RefTensor to = from;
    for (std::size_t h = 0; h < from.f.size(); h += 8)
      for (std::size_t i = 0; i < 4; ++i) {
        to.f[h + 2 * i] = from.f[h + i];
        to.f[h + 2 * i + 1] = from.f[h + i + 4];
      }
    return to;
  };
  const RefTensor half = r.turn(x, {.head_dim = 8, .rotary_dim = 8});
  const RefTensor pairs =
      r.turn(permuted(x), {.head_dim = 8, .rotary_dim = 8, .interleaved = true});
  EXPECT_EQ(permuted(half).f, pairs.f);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(half.f[i], x.f[i]) << "position 0 turns nothing";
}

// q.k after rope depends on the distance of positions only; lengths stay.
TEST(Ops, RopeIsRelative) {
  RopeSetUp r;
  const RefTensor x = normals({4, 8}, 3);
  RefTensor same = x;
  for (std::size_t t = 1; t < 4; ++t) std::copy_n(x.f.begin(), 8, same.f.begin() + t * 8);
  r.positions = integers({3, 10, 103, 110});
  const RefTensor y = r.turn(same, {.head_dim = 8, .rotary_dim = 8});
  const auto dot = [&](std::size_t a, std::size_t b) {
    return std::inner_product(y.f.begin() + a * 8, y.f.begin() + (a + 1) * 8, y.f.begin() + b * 8,
                              0.0);
  };
  EXPECT_NEAR(dot(0, 1), dot(2, 3), 1e-4);
  EXPECT_NEAR(dot(0, 0), std::inner_product(x.f.begin(), x.f.begin() + 8, x.f.begin(), 0.0), 1e-5);
}

TEST(Ops, IndicesAreChecked) {
  const RefTensor table = normals({5, 4}, 4);
  RefTensor out = make_ref({1, 4});
  for (const std::int32_t id : {-1, 5}) {
    const RefTensor ids = integers({id});
    EXPECT_THROW(call_reference("embed", write_attrs(EmbedAttrs{}), {&ids, &table}, out), Error);
    EXPECT_THROW(call_reference("gather_rows", {}, {&table, &ids}, out), Error);
  }
  RefState state = make_ref_state({.kv_heads = 1, .head_dim = 4}, 1, 16);
  const RefTensor row = normals({1, 4}, 5);
  for (const std::int32_t slot : {-1, 16}) {
    const RefTensor slots = integers({slot});
    EXPECT_THROW(call_reference("kv_append", {}, {&row, &row, &slots, nullptr}, {},
                                {nullptr, nullptr, nullptr, &state}),
                 Error);
  }
}

// Codes and scales by hand; ties go to even.
TEST(Ops, RowsOfAnInt8StateAreRoundedToTheNearest) {
  const float row[] = {254, -254, 1, 3, 5, -1, 0.98f, 0, 127.3f};
  std::uint8_t codes[std::size(row)];
  EXPECT_EQ(encode_kv_row(DType::kI8, row, codes), 2.0f);
  const int wanted[] = {127, -127, 0, 2, 2, 0, 0, 0, 64};
  for (std::size_t i = 0; i < std::size(row); ++i)
    EXPECT_EQ(static_cast<std::int8_t>(codes[i]), wanted[i]) << i;
  float back[std::size(row)];
  decode_kv_row(DType::kI8, codes, 2.0f, back);
  EXPECT_EQ(back[0], 254.0f);
  EXPECT_EQ(back[8], 128.0f);
}

TEST(Ops, RowsOfAnE4m3StateAreRoundedToTheNearest) {
  // Largest 112: scale 1/4, so codes are of four times the value.
  const float row[] = {112, -0.25f, 0.2625f, 4.25f, -4.75f, 0.0036f, 0.0037f, -0.001f, 0};
  std::uint8_t codes[std::size(row)];
  EXPECT_EQ(encode_kv_row(DType::kE4M3, row, codes), 0.25f);
  const float wanted[] = {112, -0.25f, 0.25f, 4, -5, 0, 0.00390625f, 0, 0};
  float back[std::size(row)];
  decode_kv_row(DType::kE4M3, codes, 0.25f, back);
  for (std::size_t i = 0; i < std::size(row); ++i) EXPECT_EQ(back[i], wanted[i]) << i;
}

TEST(Ops, RowsOf8BitStatesStayWithinTheirStep) {
  for (const float size : {1e-25f, 0.03f, 1.0f, 700.0f, 1e30f}) {
    RefTensor row = normals({96}, 50);
    for (float& x : row.f) x *= size;
    float largest = 0;
    for (const float x : row.f) largest = std::max(largest, std::fabs(x));
    std::vector<float> int8 = row.f, fp8 = row.f;
    round_kv_row(DType::kI8, int8);
    round_kv_row(DType::kE4M3, fp8);
    for (std::size_t i = 0; i < row.f.size(); ++i) {
      const double x = row.f[i];
      EXPECT_LE(std::fabs(int8[i] - x), largest / 127 * 0.50001) << i;
      EXPECT_LE(std::fabs(fp8[i] - x), std::max(std::fabs(x) / 16, largest / 28672.0) * 1.00001)
          << i;
    }
  }
}

TEST(Ops, RowsOf8BitStatesWithoutARangeOfTheirOwn) {
  for (const DType dtype : {DType::kI8, DType::kE4M3}) {
    std::vector<float> zeros = {0, -0.0f, 1e-31f};
    round_kv_row(dtype, zeros);
    EXPECT_EQ(zeros, (std::vector<float>{0, 0, 0}));
    for (const float odd : {INFINITY, -INFINITY, NAN}) {
      std::vector<float> row = {1, odd, 2};
      round_kv_row(dtype, row);
      for (const float x : row) EXPECT_TRUE(std::isnan(x)) << odd;
    }
  }
}

// K and V of each head have scales of their own: one head's size does not touch another's digits.
TEST(Ops, StatesOf8BitScaleEachHeadAlone) {
  for (const DType dtype : {DType::kI8, DType::kE4M3}) {
    RefTensor k = normals({3, 16}, 60), v = normals({3, 16}, 61);
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t i = 0; i < 8; ++i) k.f[t * 16 + i] *= 1e4f, v.f[t * 16 + 8 + i] *= 1e-4f;
    const RefTensor slots = integers({4, 0, 9});
    RefState state = make_ref_state({.kv_heads = 2, .head_dim = 8, .dtype = dtype}, 1, 16);
    call_reference("kv_append", {}, {&k, &v, &slots, nullptr}, {},
                   {nullptr, nullptr, nullptr, &state});
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t h = 0; h < 2; ++h)
        for (const auto& [from, kept] : {std::pair(&k.f, &state.k), {&v.f, &state.v}}) {
          const auto first = from->begin() + t * 16 + h * 8;
          std::vector<float> wanted(first, first + 8);
          round_kv_row(dtype, wanted);
          const auto at = kept->begin() + slots.i[t] * 16 + h * 8;
          EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), at));
          EXPECT_NE(wanted, std::vector<float>(first, first + 8));
        }
  }
}

// swiglu inside a linear equals two linears and a swiglu, with the rows interleaved by the recipe.
TEST(Ops, LinearSwigluIsTheUnfusedGraph) {
  const std::int64_t n = 48, k = 20;
  const RefTensor x = normals({3, k}, 6), gate = normals({n, k}, 7), up = normals({n, k}, 8),
                  residual = normals({3, n}, 9);
  Value merged{.name = "gate_up", .kind = ValueKind::kWeight};
  merged.type.dims = {2 * n, k};
  merged.recipe = {.parts = {"gate", "up"}, .interleave = kGateUpInterleave};
  const RefTensor weight =
      assemble_weight(merged, [&](std::string_view name) { return name == "gate" ? gate : up; });
  RefTensor fused = make_ref({3, n}), g = fused, u = fused, h = fused, sum = fused;
  call_reference("linear", write_attrs(LinearAttrs{.residual = true, .swiglu = true}),
                 {&x, &weight, &residual}, fused);
  const Attrs plain = write_attrs(LinearAttrs{});
  call_reference("linear", plain, {&x, &gate}, g);
  call_reference("linear", plain, {&x, &up}, u);
  call_reference("swiglu", {}, {&g, &u}, h);
  call_reference("add", {}, {&h, &residual}, sum);
  EXPECT_EQ(fused.f, sum.f);
}

TEST(Ops, AssembledWeightsConcatenateRows) {
  const RefTensor a = normals({2, 3}, 1), b = normals({1, 3}, 2);
  Value qkv{.name = "qkv", .kind = ValueKind::kWeight};
  qkv.type.dims = {3, 3};
  qkv.recipe.parts = {"a", "b"};
  const auto part = [&](std::string_view name) { return name == "a" ? a : b; };
  const RefTensor out = assemble_weight(qkv, part);
  EXPECT_TRUE(std::equal(a.f.begin(), a.f.end(), out.f.begin()));
  EXPECT_TRUE(std::equal(b.f.begin(), b.f.end(), out.f.begin() + 6));
  qkv.recipe.interleave = 2;
  EXPECT_THROW(assemble_weight(qkv, part), Error);
}

// Attention by the textbook: one sequence, whole matrices.
std::vector<float> dense_attention(const RefTensor& q, const RefState& kv, const AttentionAttrs& a,
                                   std::int64_t context) {
  std::vector<float> out(q.f.size());
  const std::int64_t queries = q.shape[0], d = a.head_dim, group = a.heads / a.kv_heads;
  for (std::int64_t t = 0; t < queries; ++t)
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const std::int64_t position = context - queries + t;
      std::vector<double> p;
      double total = 0;
      for (std::int64_t j = 0; j < context; ++j) {
        double s = 0;
        for (std::int64_t i = 0; i < d; ++i)
          s += double{q.f[(t * a.heads + h) * d + i]} * kv.k[(j * a.kv_heads + h / group) * d + i];
        s *= a.scale;
        if (a.softcap > 0) s = a.softcap * std::tanh(s / a.softcap);
        const bool visible =
            j <= position && (a.window == 0 || position - j < a.window || j < a.sink_tokens);
        p.push_back(visible ? std::exp(s) : 0.0);
        total += p.back();
      }
      for (std::int64_t i = 0; i < d; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < context; ++j)
          sum += p[j] * kv.v[(j * a.kv_heads + h / group) * d + i];
        out[(t * a.heads + h) * d + i] = static_cast<float>(sum / total);
      }
    }
  return out;
}

// Two sequences in shuffled pages equal each alone in order, written through kv_append.
TEST(Ops, PagedAttentionEqualsDense) {
  const std::int64_t page = 16, contexts[] = {37, 50}, queries[] = {5, 1};
  for (const auto& [window, sinks, softcap] :
       {std::tuple(0, 0, 0.0), {7, 0, 0.0}, {0, 0, 0.8}, {33, 0, 2.0}, {7, 20, 0.0}, {1, 1, 2.0}}) {
    const AttentionAttrs a{.heads = 4,
                           .kv_heads = 2,
                           .head_dim = 8,
                           .scale = 0.35,
                           .window = window,
                           .softcap = softcap,
                           .sink_tokens = sinks};
    const std::vector<std::int32_t> pages = sample::distinct_slots(8, 9);  // 4 pages each
    RefState paged = make_ref_state({.kv_heads = 2, .head_dim = 8}, 9, page);
    std::vector<RefState> alone;
    for (int s = 0; s < 2; ++s) {
      const RefTensor k = normals({contexts[s], 16}, 20 + s),
                      v = normals({contexts[s], 16}, 30 + s);
      alone.push_back({.page_tokens = page, .k = k.f, .v = v.f});
      RefTensor slots = make_ref({contexts[s]}, DType::kI32);
      for (std::int64_t j = 0; j < contexts[s]; ++j)
        slots.i[j] = static_cast<std::int32_t>(pages[s * 4 + j / page] * page + j % page);
      call_reference("kv_append", {}, {&k, &v, &slots, nullptr}, {},
                     {nullptr, nullptr, nullptr, &paged});
    }
    const RefTensor q = normals({6, 32}, 40);
    RefTensor table = make_ref({2, 4}, DType::kI32), out = make_ref({6, 32});
    table.i = pages;
    const RefTensor start = integers({0, 5, 6}), context = integers({37, 50});
    call_reference("attention", write_attrs(a), {&q, &start, &context, &table, nullptr},
                   std::span(&out, 1), {nullptr, nullptr, nullptr, nullptr, &paged});
    std::vector<float> wanted;
    for (int s = 0; s < 2; ++s) {
      RefTensor own = make_ref({queries[s], 32});
      std::copy_n(q.f.begin() + (s == 0 ? 0 : 5 * 32), own.f.size(), own.f.begin());
      const auto part = dense_attention(own, alone[s], a, contexts[s]);
      wanted.insert(wanted.end(), part.begin(), part.end());
    }
    expect_near(out.f, wanted, 1e-6);
  }
}

TEST(Ops, AttentionRefusesPagesOutsideItsState) {
  const OpCase c = op("attention").cases().at(0);
  const RefTensor q = normals({1, 576}, 1), start = integers({0, 1}), context = integers({1});
  RefState state = make_ref_state({.kv_heads = 3, .head_dim = 64}, 2, 16);
  RefTensor out = make_ref({1, 576}), table = make_ref({1, 1}, DType::kI32);
  for (const auto& [page, length] : {std::pair(2, 1), {-1, 1}, {0, 17}}) {
    table.i = {page};
    const RefTensor cached = integers({length});
    EXPECT_THROW(call_reference("attention", c.attrs, {&q, &start, &cached, &table, nullptr},
                                std::span(&out, 1), {nullptr, nullptr, nullptr, nullptr, &state}),
                 Error);
  }
}

}  // namespace
}  // namespace ingot
