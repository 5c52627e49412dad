#include "formats/gguf.h"

#include "base/file.h"

#include <fmt/format.h>

#include "tests/formats/file_bytes.h"
#include <chrono>
#include <string>
#include <vector>

namespace ingot {
namespace {

using test::bytes_of;
using test::expect_bad_input;
using test::raw;
using test::TemporaryFolder;

std::string text(std::string_view s) {
  return raw<std::uint64_t>(s.size()) + std::string(s);
}
std::string pair(std::string_view key, std::uint32_t type, const std::string& value) {
  return text(key) + raw<std::uint32_t>(type) + value;
}
std::string array(std::uint32_t element, std::uint64_t count, const std::string& elements) {
  return raw(element) + raw(count) + elements;
}

struct Tensor {
  std::string name = "w";
  std::vector<std::uint64_t> dims = {32, 2};  // innermost first, as in the file
  std::uint32_t type = 8;                     // Q8_0
  std::uint64_t offset = 0;
  std::uint32_t rank = ~0u;  // written instead of the number of dims
};

std::string info(const Tensor& t) {
  std::string out = text(t.name);
  out += raw<std::uint32_t>(t.rank == ~0u ? static_cast<std::uint32_t>(t.dims.size()) : t.rank);
  for (const std::uint64_t d : t.dims) out += raw(d);
  return out + raw(t.type) + raw(t.offset);
}

struct File {
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::vector<std::string> pairs = {pair("general.architecture", 8, text("llama"))};
  std::vector<Tensor> tensors = {Tensor{}};
  std::uint64_t data_bytes = 96;  // 68 padded to 32
  std::uint64_t tensor_count = ~std::uint64_t{0};

  std::string bytes(std::size_t alignment = 32) const {
    std::string out = magic + raw(version);
    out += raw<std::uint64_t>(tensor_count == ~std::uint64_t{0} ? tensors.size() : tensor_count);
    out += raw<std::uint64_t>(pairs.size());
    for (const std::string& p : pairs) out += p;
    for (const Tensor& t : tensors) out += info(t);
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    for (std::uint64_t i = 0; i < data_bytes; ++i) out += static_cast<char>(i);
    return out;
  }
};

GgufContents parse(const std::string& bytes) {
  return parse_gguf(bytes_of(bytes), "m.gguf");
}

void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  const auto start = std::chrono::steady_clock::now();
  expect_bad_input([&] { parse(bytes); }, parts);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

void expect_refused(const File& file, std::initializer_list<std::string_view> parts) {
  expect_refused(file.bytes(), parts);
}

File with_pair(const std::string& p) {
  File file;
  file.pairs.push_back(p);
  return file;
}

File with_tensor(const Tensor& t) {
  File file;
  file.tensors = {t};
  return file;
}

TEST(Gguf, ReadsAFileOfBothVersions) {
  for (const std::uint32_t version : {2u, 3u}) {
    File file;
    file.version = version;
    file.tensors.push_back({.name = "n", .dims = {4}, .type = 0, .offset = 96});
    file.data_bytes = 96 + 16;  // the last tensor may go without padding
    const std::string bytes = file.bytes();
    const GgufContents contents = parse(bytes);
    ASSERT_EQ(contents.tensors.size(), 2u);
    const SourceTensor& w = contents.tensors[0];
    EXPECT_EQ(w.shape, Shape({2, 32})) << "outermost first";
    EXPECT_EQ(w.dtype, "Q8_0");
    EXPECT_EQ(w.format, &weight_format("q8_0"));
    EXPECT_EQ(w.bytes.size(), 68u);
    EXPECT_EQ(std::to_integer<int>(w.bytes[5]), 5);
    EXPECT_EQ(contents.tensors[1].bytes.size(), 16u);
    EXPECT_EQ(std::to_integer<int>(contents.tensors[1].bytes[0]), 96);
    EXPECT_EQ(contents.metadata.require_text("general.architecture"), "llama");
  }
}

TEST(Gguf, ReadsEveryKindOfValue) {
  File file;
  file.pairs = {pair("u8", 0, raw<std::uint8_t>(200)),
                pair("i8", 1, raw<std::int8_t>(-3)),
                pair("u16", 2, raw<std::uint16_t>(60000)),
                pair("i16", 3, raw<std::int16_t>(-300)),
                pair("u32", 4, raw<std::uint32_t>(4000000000u)),
                pair("i32", 5, raw<std::int32_t>(-70000)),
                pair("f32", 6, raw(1.5f)),
                pair("yes", 7, "\x01"),
                pair("text", 8, text("h\xc3\xa9")),
                pair("texts", 9, array(8, 3, text("a") + text("") + text("bc"))),
                pair("u64", 10, raw(~std::uint64_t{0})),
                pair("i64", 11, raw<std::int64_t>(-5)),
                pair("f64", 12, raw(0.25)),
                pair("ints", 9, array(5, 2, raw<std::int32_t>(1) + raw<std::int32_t>(-2))),
                pair("floats", 9, array(6, 2, raw(0.5f) + raw(-1.f))),
                pair("bools", 9, array(7, 2, std::string("\x01\x00", 2))),
                pair("bytes", 9, array(0, 3, "abc")),
                pair("none", 9, array(8, 0, ""))};
  const std::string bytes = file.bytes();
  const GgufMetadata m = std::move(parse(bytes).metadata);
  EXPECT_EQ(m.entries().size(), file.pairs.size());
  EXPECT_EQ(m.integer("u8"), 200);
  EXPECT_EQ(m.integer("i8"), -3);
  EXPECT_EQ(m.integer("u16"), 60000);
  EXPECT_EQ(m.integer("i16"), -300);
  EXPECT_EQ(m.integer("u32"), 4000000000);
  EXPECT_EQ(m.integer("i32"), -70000);
  EXPECT_EQ(m.integer("i64"), -5);
  EXPECT_EQ(m.number("f32"), 1.5);
  EXPECT_EQ(m.number("f64"), 0.25);
  EXPECT_EQ(m.number("i8"), -3);
  EXPECT_EQ(m.boolean("yes"), true);
  EXPECT_EQ(m.text("text"), "h\xc3\xa9");
  EXPECT_EQ(m.texts("texts"), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(m.texts("none")->size(), 0u);
  EXPECT_EQ(m.integers("ints"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(m.integers("u8"), (std::vector<std::int64_t>{200}));
  EXPECT_EQ(m.floats("floats"), (std::vector<float>{0.5f, -1}));
  EXPECT_EQ(m.booleans("bools"), (std::vector<bool>{true, false}));
  EXPECT_EQ(m.raw("bytes")->size(), 3u);
  // Views, not copies.
  EXPECT_GE(m.text("text")->data(), bytes.data());
  EXPECT_LT(m.text("text")->data(), bytes.data() + bytes.size());

  EXPECT_EQ(m.integer("absent"), std::nullopt);
  EXPECT_EQ(m.texts("absent"), std::nullopt);
  expect_bad_input([&] { m.require_integer("absent"); }, {"[gguf.absent] missing in m.gguf"});
  expect_bad_input([&] { m.require_text("u8"); }, {"[gguf.u8]", "is u8, wanted a text"});
  expect_bad_input([&] { m.integer("u64"); }, {"past 2^63"});
  expect_bad_input([&] { m.integer("f32"); }, {"wanted an integer"});
  expect_bad_input([&] { m.integer("ints"); }, {"array of i32"});
  expect_bad_input([&] { m.number("text"); }, {"wanted a number"});
  expect_bad_input([&] { m.boolean("u8"); }, {"wanted a bool"});
  expect_bad_input([&] { m.texts("ints"); }, {"array of texts"});
  expect_bad_input([&] { m.integers("texts"); }, {"array of integers"});
  expect_bad_input([&] { m.floats("ints"); }, {"array of floats"});
  expect_bad_input([&] { m.raw("ints"); }, {"array of bytes"});
}

TEST(Gguf, RefusesEveryTruncation) {
  File file = with_pair(pair("t", 9, array(8, 2, text("abc") + text("de"))));
  file.data_bytes = 68;
  const std::string good = file.bytes();
  EXPECT_EQ(parse(good).tensors.size(), 1u);
  for (std::size_t size = 0; size < good.size(); ++size)
    expect_refused(good.substr(0, size), {"m.gguf"});
  expect_refused(good.substr(0, good.size() - 1), {"tensor w", "68", "67"});
}

TEST(Gguf, RefusesOtherVersionsAndByteOrders) {
  File file;
  file.version = 1;
  expect_refused(file, {"version 1"});
  file.version = 4;
  expect_refused(file, {"version 4"});
  file.version = 0;
  expect_refused(file, {"version 0"});
  file.version = 0x03000000;
  expect_refused(file, {"big-endian"});
  file.magic = "GGML";
  expect_refused(file, {"not a GGUF"});
}

TEST(Gguf, RefusesHostileCounts) {
  File file;
  for (const std::uint64_t count :
       {std::uint64_t{1} << 61, std::uint64_t{1} << 63, std::uint64_t{999999}, ~std::uint64_t{1}}) {
    file.tensor_count = count;
    expect_refused(file, {"m.gguf"});
  }
  std::string bytes = File{}.bytes();
  const std::string keys = raw(std::uint64_t{1} << 61);
  bytes.replace(16, 8, keys);
  expect_refused(bytes, {"keys"});
}

TEST(Gguf, RefusesHostileDimensions) {
  expect_refused(with_tensor({.dims = {0, 2}}), {"tensor w", "dimension 0"});
  expect_refused(with_tensor({.dims = {32, 0}}), {"dimension 0"});
  expect_refused(with_tensor({.dims = {~std::uint64_t{0}, 2}}), {"dimension -1"});
  expect_refused(with_tensor({.dims = {9223372036854775776u, 2}}), {"larger than memory"});
  expect_refused(with_tensor({.dims = {(std::uint64_t{1} << 63) - 1, 2}, .type = 0}),
                 {"larger than memory"});
  expect_refused(with_tensor({.dims = {(std::uint64_t{1} << 42) + 1, 1u << 20}, .type = 0}),
                 {"tensor w"});
  expect_refused(with_tensor({.dims = {(std::uint64_t{1} << 62), 1}, .type = 0}),
                 {"larger than memory"});
  expect_refused(with_tensor({.dims = {32, 2, 1, 1, 1}}), {"5 dimensions"});
  expect_refused(with_tensor({.rank = 0xfffffffe}), {"4294967294 dimensions"});
  expect_refused(with_tensor({.dims = {33, 2}}), {"whole blocks of 32"});
  expect_refused(with_tensor({.dims = {128, 2}, .type = 12}), {"whole blocks of 256"});
}

TEST(Gguf, RefusesUnknownTypesAndCarriesUnsupportedOnes) {
  for (const std::uint32_t id : {4u, 5u, 31u, 36u, 99u, 0xffffffffu})
    expect_refused(with_tensor({.type = id}), {"tensor w", "unknown type"});
  File file = with_tensor({.dims = {256}, .type = 16});
  const std::string bytes = file.bytes();
  const GgufContents contents = parse(bytes);
  EXPECT_EQ(contents.tensors[0].bytes.size(), 66u);
  expect_bad_input([&] { require_format(contents.tensors[0]); }, {"tensor w", "IQ2_XXS"});
}

TEST(Gguf, RefusesOddKeys) {
  expect_refused(with_pair(pair("", 4, raw(1u))), {"empty key"});
  expect_refused(with_pair(pair("general.architecture", 4, raw(1u))), {"occurs twice"});
  expect_refused(with_pair(pair("k", 13, raw(1u))), {"key k", "unknown type 13"});
  expect_refused(with_pair(pair("k", 9, array(9, 1, array(4, 0, "")))), {"arrays of arrays"});
  expect_refused(with_pair(pair("k", 9, array(8, std::uint64_t{1} << 60, ""))), {"key k"});
  expect_refused(with_pair(pair("k", 9, array(4, std::uint64_t{1} << 62, ""))), {"key k"});
  expect_refused(with_pair(pair("k", 9, array(13, 1, ""))), {"unknown type 13"});
  expect_refused(with_pair(pair("k", 7, "\x02")), {"key k", "bool"});
  expect_refused(with_pair(pair("k", 8, raw(~std::uint64_t{0}) + "abc")), {"k of"});
  expect_refused(with_pair(pair("k", 8, raw<std::uint64_t>(1000000) + "abc")), {"k at byte"});
  expect_refused(with_pair(raw<std::uint64_t>(1u << 17) + std::string(1u << 17, 'k')),
                 {"a key of 131072 bytes"});
}

TEST(Gguf, RefusesOddAlignment) {
  const auto aligned = [](std::uint32_t type, const std::string& value) {
    return with_pair(pair("general.alignment", type, value));
  };
  File good = aligned(4, raw(64u));
  EXPECT_EQ(parse(good.bytes(64)).tensors.size(), 1u);
  expect_refused(aligned(5, raw(32)), {"alignment is i32"});
  expect_refused(aligned(8, text("32")), {"alignment is text"});
  for (const std::uint32_t a : {0u, 3u, 1u << 31, 1u << 21, 48u})
    expect_refused(aligned(4, raw(a)), {"alignment is", "power of two"});
}

TEST(Gguf, RefusesOddOffsetsAndNames) {
  expect_refused(with_tensor({.offset = 4}), {"tensor w", "no multiple of 32"});
  expect_refused(with_tensor({.offset = 32}), {"hole"});
  expect_refused(with_tensor({.offset = ~std::uint64_t{31}}), {"hole"});
  File file;
  file.data_bytes = 192;
  file.tensors.push_back({.name = "v", .offset = 64});
  expect_refused(file, {"tensor v", "overlap"});
  file.tensors[1].offset = 96;
  EXPECT_EQ(parse(file.bytes()).tensors.size(), 2u);
  expect_refused(with_tensor({.name = ""}), {"without a name"});
  TemporaryFolder folder;
  file.tensors[1].name = "w";
  const auto path = folder.write("m.gguf", file.bytes());
  expect_bad_input([&] { open_gguf(path); }, {"tensor w is in", "and again in"});
}

// ---- split models

std::string part(std::uint16_t number, std::uint16_t count, std::int32_t tensors) {
  File file;
  file.tensors[0].name = fmt::format("w{}", number);
  file.pairs = {pair("split.no", 2, raw(number)), pair("split.count", 2, raw(count)),
                pair("split.tensors.count", 5, raw(tensors))};
  if (number == 0) file.pairs.push_back(pair("general.architecture", 8, text("llama")));
  return file.bytes();
}

TEST(Gguf, ReadsSplitModelsAsOne) {
  TemporaryFolder folder;
  const auto first = folder.write("m-00001-of-00003.gguf", part(0, 3, 3));
  const auto second = folder.write("m-00002-of-00003.gguf", part(1, 3, 3));
  const auto third = folder.write("m-00003-of-00003.gguf", part(2, 3, 3));
  const auto source = open_gguf(first);
  ASSERT_EQ(source->tensors().size(), 3u);
  EXPECT_EQ(source->tensors()[2].name, "w2");
  EXPECT_EQ(source->tensors()[2].file, third);
  EXPECT_EQ(source->metadata().text("general.architecture"), "llama");

  expect_bad_input([&] { open_gguf(second); }, {"open the first", "m-00001-of-00003.gguf"});
  folder.write("m-00002-of-00003.gguf", part(2, 3, 3));
  expect_bad_input([&] { open_gguf(first); }, {"m-00002-of-00003.gguf", "no part 2 of 3"});
  std::filesystem::remove(second);
  expect_bad_input([&] { open_gguf(first); }, {"part 2 of 3 is not there"});
  folder.write("m-00002-of-00003.gguf", part(1, 3, 3));
  folder.write("m-00001-of-00003.gguf", part(0, 3, 4));
  expect_bad_input([&] { open_gguf(first); }, {"3 tensors in all parts, wanted 4"});
  const auto renamed = folder.write("other.gguf", part(0, 3, 3));
  expect_bad_input([&] { open_gguf(renamed); }, {"must end in -00001-of-00003.gguf"});
}

// Oracle: files written by the gguf Python package.
TEST(Gguf, ReadsFixtures) {
  const std::string folder = std::string(INGOT_FIXTURES) + "/gguf/";
  const auto source = open_gguf(folder + "llama_q4_0.gguf");
  const GgufMetadata& m = source->metadata();
  EXPECT_EQ(m.require_text("general.architecture"), "llama");
  const auto width = m.require_integer("llama.embedding_length");
  const SourceTensor& embedding = source->require("token_embd.weight");
  EXPECT_EQ(embedding.shape[1], width);
  EXPECT_EQ(embedding.shape[0], m.require_integer("llama.vocab_size"));
  EXPECT_EQ(embedding.bytes.size(),
            weight_bytes(require_format(embedding), embedding.shape[0], embedding.shape[1]));
  const auto mixed = open_gguf(folder + "k_mixed.gguf");
  std::size_t k_quants = 0;
  for (const SourceTensor& t : mixed->tensors()) {
    EXPECT_NE(t.format, nullptr) << t.name;
    k_quants += t.dtype.ends_with("_K");
  }
  EXPECT_GE(k_quants, 5u);
}

}  // namespace
}  // namespace ingot
