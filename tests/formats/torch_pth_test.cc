#include "formats/torch_pth.h"

#include "base/file.h"
#include "base/half.h"

#include <fmt/format.h>

#include "tests/formats/file_bytes.h"
#include <string>
#include <utility>
#include <vector>

namespace ingot {
namespace {

using test::bytes_of;
using test::expect_bad_input;
using test::raw;

// ---- a zip writer as small as the tests need

struct Entry {
  std::string name;
  std::string data;
  bool zip64 = false;
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
};

std::string zip(const std::vector<Entry>& entries, bool end64 = false) {
  std::string out;
  std::string directory;
  for (const Entry& e : entries) {
    const std::uint64_t offset = out.size();
    const auto size = static_cast<std::uint32_t>(e.data.size());
    const auto name_size = static_cast<std::uint16_t>(e.name.size());
    const std::string padding = "FB" + raw<std::uint16_t>(3) + "ZZZ";  // as torch aligns
    out += raw(0x04034b50u) + raw<std::uint16_t>(20) + raw(e.flags) + raw(e.method) + raw(0u) +
           raw(0u) + raw(size) + raw(size) + raw(name_size) +
           raw(static_cast<std::uint16_t>(padding.size())) + e.name + padding + e.data;
    const std::string extra = e.zip64 ? raw<std::uint16_t>(1) + raw<std::uint16_t>(24) +
                                            raw<std::uint64_t>(size) + raw<std::uint64_t>(size) +
                                            raw(offset)
                                      : "";
    const std::uint32_t shown = e.zip64 ? 0xffffffffu : size;
    directory += raw(0x02014b50u) + raw(0u) + raw(e.flags) + raw(e.method) + raw(0u) + raw(0u) +
                 raw(shown) + raw(shown) + raw(name_size) +
                 raw(static_cast<std::uint16_t>(extra.size())) + raw<std::uint16_t>(0) +
                 raw<std::uint64_t>(0) +
                 raw(e.zip64 ? 0xffffffffu : static_cast<std::uint32_t>(offset)) + e.name + extra;
  }
  const std::uint64_t start = out.size();
  const std::uint64_t count = entries.size();
  out += directory;
  const std::uint64_t end = out.size();
  if (end64) {
    out += raw(0x06064b50u) + raw<std::uint64_t>(44) + raw(0u) + raw(0u) + raw(0u) + raw(count) +
           raw(count) + raw<std::uint64_t>(directory.size()) + raw(start);
    out += raw(0x07064b50u) + raw(0u) + raw(end) + raw(1u);
  }
  const auto n = static_cast<std::uint16_t>(end64 ? 0xffff : count);
  return out + raw(0x06054b50u) + raw(0u) + raw(n) + raw(n) +
         raw(end64 ? 0xffffffffu : static_cast<std::uint32_t>(directory.size())) +
         raw(end64 ? 0xffffffffu : static_cast<std::uint32_t>(start)) + raw<std::uint16_t>(0);
}

// ---- pickle pieces

std::string text(std::string_view s) {
  return "X" + raw(static_cast<std::uint32_t>(s.size())) + std::string(s);
}
std::string integer(std::int32_t i) {
  return "J" + raw(i);
}
std::string tuple(const std::vector<std::int32_t>& values) {
  std::string out = "(";
  for (const std::int32_t v : values) out += integer(v);
  return out + "t";
}
const std::string kDict = "ccollections\nOrderedDict\n)R";

struct Tensor {
  std::string storage = "FloatStorage";
  std::string key = "0";
  std::int32_t elements = 6;
  std::int32_t offset = 0;
  std::vector<std::int32_t> shape = {2, 3};
  std::vector<std::int32_t> strides = {3, 1};
};

std::string tensor(const Tensor& t) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + t.storage + "\n" +
         text(t.key) + text("cpu") + integer(t.elements) + "tQ" + integer(t.offset) +
         tuple(t.shape) + tuple(t.strides) + "\x89" + kDict + "tR";
}

std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "\x80\x02}(";
  for (const auto& [key, value] : items) out += text(key) + value;
  return out + "u.";
}

const std::string kSix = raw(1.f) + raw(2.f) + raw(3.f) + raw(4.f) + raw(5.f) + raw(6.f);

std::string archive(const std::string& pickle, const std::string& data = kSix) {
  return zip({{"m/data.pkl", pickle}, {"m/byteorder", "little"}, {"m/data/0", data}});
}

TorchContents parse(const std::string& file) {
  return parse_torch_pth(bytes_of(file), "m.pth");
}
void expect_refused(const std::string& file, std::initializer_list<std::string_view> parts) {
  expect_bad_input([&] { parse(file); }, parts);
}
std::vector<float> floats(const SourceTensor& t) {
  std::vector<float> values(t.bytes.size() / 4);
  std::memcpy(values.data(), t.bytes.data(), t.bytes.size());
  return values;
}

TEST(TorchPth, ReadsATensorWithoutCopying) {
  const std::string file = archive(dict({{"w", tensor({})}, {"note", text("hello")}}));
  const TorchContents contents = parse(file);
  ASSERT_EQ(contents.tensors.size(), 1u);
  const SourceTensor& w = contents.tensors[0];
  EXPECT_EQ(w.name, "w");
  EXPECT_EQ(w.dtype, "F32");
  EXPECT_EQ(w.format, &weight_format("f32"));
  EXPECT_EQ(w.shape, Shape({2, 3}));
  EXPECT_EQ(floats(w), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(contents.copies.empty());
}

TEST(TorchPth, ReadsZip64AndProtocol4) {
  const std::string pickle = dict({{"w", tensor({})}});
  for (const bool end64 : {false, true}) {
    const std::string file = zip({{"m/data.pkl", pickle, true}, {"m/data/0", kSix, true}}, end64);
    EXPECT_EQ(floats(parse(file).tensors.at(0)).size(), 6u);
  }
  // The same tensor in the words of protocol 4.
  const auto short_text = [](const std::string& s) {
    return "\x8c" + raw(static_cast<std::uint8_t>(s.size())) + s + "\x94";
  };
  const std::string p4 = "\x80\x04\x95" + raw<std::uint64_t>(1) + "}\x94" + short_text("w") +
                         short_text("torch._utils") + short_text("_rebuild_tensor_v2") +
                         "\x93\x94((" + short_text("storage") + short_text("torch") +
                         short_text("FloatStorage") + "\x93\x94" + short_text("0") +
                         short_text("cuda:0");
  const std::string rest = std::string("K\x06tQK\x00", 6) + std::string("K\x02K\x03\x86") +
                           std::string("\x8a\x01\x03K\x01\x86") + "\x89" + kDict + "tRs.";
  const TorchContents contents = parse(archive(p4 + rest));
  EXPECT_EQ(contents.tensors.at(0).shape, Shape({2, 3}));
}

TEST(TorchPth, ReadsTiedSlicedAndStridedTensors) {
  const std::string file = archive(dict({
      {"row", tensor({.offset = 3, .shape = {3}, .strides = {1}})},
      {"transposed", tensor({.shape = {3, 2}, .strides = {1, 3}})},
      {"column", tensor({.offset = 1, .shape = {2}, .strides = {3}})},
      {"one", tensor({.offset = 5, .shape = {1, 1}, .strides = {77, 99}})},
      {"scalar", tensor({.offset = 2, .shape = {}, .strides = {}})},
      {"empty", tensor({.offset = 6, .shape = {0, 3}, .strides = {3, 1}})},
      {"parameter", "ctorch._utils\n_rebuild_parameter\n(" + tensor({}) + "\x89" + kDict + "tR"},
  }));
  const TorchContents contents = parse(file);
  ASSERT_EQ(contents.tensors.size(), 7u);
  EXPECT_EQ(floats(contents.tensors[0]), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(floats(contents.tensors[1]), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(floats(contents.tensors[2]), (std::vector<float>{2, 5}));
  EXPECT_EQ(floats(contents.tensors[3]), (std::vector<float>{6}));
  EXPECT_EQ(floats(contents.tensors[4]), (std::vector<float>{3}));
  EXPECT_TRUE(contents.tensors[5].bytes.empty());
  EXPECT_EQ(floats(contents.tensors[6]).size(), 6u);
  EXPECT_EQ(contents.copies.size(), 2u);
}

TEST(TorchPth, ReadsStateDictsWithMetadata) {
  const std::string pickle =
      "\x80\x02" + kDict + "(" + text("w") + tensor({}) + "u}" + text("_metadata") + kDict + "sb.";
  EXPECT_EQ(parse(archive(pickle)).tensors.size(), 1u);
}

TEST(TorchPth, NeverExecutes) {
  expect_refused(archive("\x80\x02"
                         "cos\nsystem\n(" +
                         text("true") + "tR."),
                 {"'os system' is refused", "m.pth"});
  expect_refused(archive("\x80\x02"
                         "cbuiltins\neval\n(" +
                         text("1") + "tR."),
                 {"builtins eval"});
  expect_refused(archive("\x80\x04" + text("posix") + text("system") + "\x93."), {"posix system"});
  // Globals of the list, called in a way that they are not for.
  expect_refused(archive("\x80\x02"
                         "ctorch\nFloatStorage\n(K\x01tR."),
                 {"torch FloatStorage"});
  expect_refused(archive("\x80\x02"
                         "ccollections\nOrderedDict\n(]tR."),
                 {"OrderedDict"});
  // INST, OBJ, NEWOBJ, EXT1, PERSID
  for (const char opcode : {'i', 'o', '\x81', '\x82', 'P', 'S', 'I', 'd', '2', '\x92'})
    expect_refused(archive(std::string("\x80\x02}") + opcode + "os\nsystem\n."), {"opcode"});
}

TEST(TorchPth, RefusesMalformedPickles) {
  const std::string good = dict({{"w", tensor({})}});
  for (std::size_t size = 0; size < good.size(); ++size)
    expect_refused(archive(good.substr(0, size)), {"m.pth"});
  for (const std::string& bad :
       {std::string("."), std::string("\x80\x02."), std::string("\x80\x01}."),
        std::string("\x80\x09}."), std::string("t."), std::string("(s."), std::string("]K\x01s."),
        std::string("}K\x01a."), std::string("h\x07."), std::string("}(K\x01u."), std::string("N."),
        std::string("]."), std::string("}(0."), std::string("\x8a\x09") + "123456789.",
        std::string("cfoo"), "c" + std::string(1000, 'a') + "\n.", std::string("NQ."),
        std::string("NNR.")})
    expect_refused(archive(bad), {"m.pth"});
  std::string many = "\x80\x02";
  many.append(3'000'000, 'N');
  expect_refused(archive(many + "."), {"values"});
  std::string marks = "\x80\x02";
  marks.append(3'000'000, '(');
  expect_refused(archive(marks + "."), {"marks"});
}

TEST(TorchPth, RefusesTensorsThatReachOutside) {
  const auto one = [](const Tensor& t) { return archive(dict({{"w", tensor(t)}})); };
  expect_refused(one({.shape = {2, 4}, .strides = {4, 1}}), {"tensor w", "6 elements"});
  expect_refused(one({.offset = 1}), {"tensor w"});
  expect_refused(one({.offset = -1}), {"tensor w"});
  expect_refused(one({.strides = {-3, 1}}), {"tensor w"});
  expect_refused(one({.shape = {-2, 3}}), {"impossible"});
  expect_refused(one({.shape = {2147483647, 2147483647, 2147483647}, .strides = {1, 1, 1}}),
                 {"impossible"});
  expect_refused(one({.shape = {2147483647}, .strides = {0}}), {"larger than the file"});
  expect_refused(one({.shape = {2}, .strides = {2147483647}}), {"tensor w"});
  expect_refused(one({.shape = {2, 3}, .strides = {1}}), {"strides"});
  expect_refused(one({.elements = 5}), {"storage data/0", "24 bytes"});
  expect_refused(one({.elements = -1}), {"storage data/0"});
  expect_refused(one({.storage = "HalfStorage"}), {"storage data/0"});
  expect_refused(one({.key = "1"}), {"data/1 is not in the archive"});
  expect_refused(one({.storage = "QInt8Storage"}), {"QInt8Storage"});
  // Many strided views of one storage must not multiply it.
  std::vector<std::pair<std::string, std::string>> items;
  for (int i = 0; i < 200; ++i) items.emplace_back("w" + std::to_string(i), "h\x01");
  std::string views =
      "\x80\x02}(" + text("v") + tensor({.shape = {6, 6}, .strides = {0, 1}}) + "q\x01";
  for (const auto& [key, value] : items) views += text(key) + value;
  expect_refused(archive(views + "u."), {"larger than the file"});
}

TEST(TorchPth, RefusesOddArchives) {
  const std::string pickle = dict({{"w", tensor({})}});
  const std::string good = archive(pickle);
  for (std::size_t size = 0; size < good.size(); ++size)
    expect_refused(good.substr(0, size), {"m.pth"});
  expect_refused(zip({{"m/data.pkl", pickle, false, 8}}), {"compressed"});
  expect_refused(zip({{"m/data.pkl", pickle, false, 0, 1}}), {"encrypted"});
  expect_refused(zip({{"m/other", pickle}}), {"no data.pkl"});
  expect_refused(zip({{"m/data.pkl", pickle}, {"m/byteorder", "big"}}), {"byte order 'big'"});
  expect_refused(archive("\x80\x02]."), {"no dict"});
  expect_refused(archive(dict({{"model", "}"}})), {"no tensor among them"});
  expect_refused("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", {"before 1.6"});
  // Offsets and sizes that lie, at every byte of the directory.
  for (std::size_t i = good.size() - 22; i + 2 < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(~bad[i]);
    if (i >= good.size() - 18 && i < good.size() - 14)
      continue;  // numbers of disks and of entries here
    if (i >= good.size() - 14 && i < good.size() - 12) continue;
    expect_refused(bad, {"m.pth"});
  }
}

// Oracle: files written by torch.save, against the same model in safetensors form.
TEST(TorchPth, ReadsFixtures) {
  const std::string folder = std::string(INGOT_FIXTURES) + "/meta/";
  const auto whole = open_torch_pth(folder + "llama/consolidated.00.pth");
  const SourceTensor& wq = whole->require("layers.0.attention.wq.weight");
  EXPECT_NE(wq.format, nullptr);
  EXPECT_EQ(wq.bytes.size(), weight_bytes(require_format(wq), wq.shape[0], wq.shape[1]));
}

TEST(TorchPth, JoinsModelParallelShards) {
  const std::string folder = std::string(INGOT_FIXTURES) + "/meta/llama2_mp2/";
  const auto shard = [&](int i) {
    return open_torch_pth(folder + fmt::format("consolidated.{:02}.pth", i));
  };
  std::vector<std::unique_ptr<TensorSource>> shards;
  shards.push_back(shard(0));
  shards.push_back(shard(1));
  const ShardedSource joined(std::move(shards), [](const SourceTensor& t) {
    if (t.shape.rank() == 1) return -1;
    return t.name.find("wo.") != std::string::npos || t.name.find("w2.") != std::string::npos ? 1
                                                                                              : 0;
  });
  const auto first = shard(0);
  const auto second = shard(1);
  std::vector<std::byte> scratch;
  const std::string wq = "layers.0.attention.wq.weight";
  auto bytes = contiguous_bytes(joined.require(wq), scratch);
  const auto& a = first->require(wq);
  const auto& b = second->require(wq);
  EXPECT_EQ(joined.require(wq).shape, Shape({a.shape[0] * 2, a.shape[1]}));
  ASSERT_EQ(bytes.size(), a.bytes.size() + b.bytes.size());
  EXPECT_EQ(std::memcmp(bytes.data(), a.bytes.data(), a.bytes.size()), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + a.bytes.size(), b.bytes.data(), b.bytes.size()), 0);

  const std::string wo = "layers.0.attention.wo.weight";
  bytes = contiguous_bytes(joined.require(wo), scratch);
  const auto& left = first->require(wo);
  const auto& right = second->require(wo);
  const std::size_t half = left.bytes.size() / static_cast<std::size_t>(left.shape[0]);
  EXPECT_EQ(joined.require(wo).shape, Shape({left.shape[0], left.shape[1] * 2}));
  for (std::size_t r = 0; r < static_cast<std::size_t>(left.shape[0]); ++r) {
    ASSERT_EQ(std::memcmp(bytes.data() + 2 * r * half, left.bytes.data() + r * half, half), 0);
    ASSERT_EQ(std::memcmp(bytes.data() + (2 * r + 1) * half, right.bytes.data() + r * half, half),
              0);
  }
  EXPECT_FALSE(joined.require("norm.weight").bytes.empty());
}

}  // namespace
}  // namespace ingot
