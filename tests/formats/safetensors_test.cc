#include "formats/safetensors.h"

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
using testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data) {
  return raw<std::uint64_t>(header.size()) + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}

std::vector<SourceTensor> parse(const std::string& file) {
  return parse_safetensors(bytes_of(file), "w.safetensors");
}

void expect_refused(const std::string& file, std::initializer_list<std::string_view> parts) {
  expect_bad_input([&] { parse(file); }, parts);
}

// Two tensors, in another order in the header than in the data.
const std::string kGoodHeader = "{" + entry("b", "F16", "[3]", "[16,22]") + "," +
                                R"("__metadata__":{"format":"pt"},)" +
                                entry("a", "F32", "[2,2]", "[0,16]") + "}  ";
const std::string kGoodData(22, '\x01');

TEST(Safetensors, ReadsNamesShapesAndBytes) {
  const std::string file = file_of(kGoodHeader, kGoodData);
  const auto tensors = parse(file);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "b");
  EXPECT_EQ(tensors[0].dtype, "F16");
  EXPECT_EQ(tensors[0].format, &weight_format("f16"));
  EXPECT_EQ(tensors[0].shape, Shape({3}));
  EXPECT_EQ(tensors[1].shape, Shape({2, 2}));
  EXPECT_EQ(tensors[1].bytes.size(), 16u);
  EXPECT_EQ(reinterpret_cast<const char*>(tensors[1].bytes.data()),
            file.data() + 8 + kGoodHeader.size());
}

TEST(Safetensors, CarriesWhatItCannotComputeWithAndRefusesItsUse) {
  const std::string header =
      "{" + entry("empty", "F32", "[0]", "[0,0]") + "," + entry("mask", "BOOL", "[2]", "[0,2]") +
      "," + entry("ids", "I64", "[]", "[2,10]") + "," + entry("w", "F8_E4M3", "[2,3]", "[10,16]") +
      "," + entry("video", "BF16", "[1,1,1,1,2]", "[16,20]") + "}";
  const std::string file = file_of(header, std::string(20, 'x'));
  const auto tensors = parse(file);
  ASSERT_EQ(tensors.size(), 5u);
  EXPECT_TRUE(tensors[0].bytes.empty());
  EXPECT_EQ(tensors[2].shape.rank(), 0);
  EXPECT_EQ(tensors[2].bytes.size(), 8u);
  EXPECT_EQ(tensors[4].shape, Shape({2}));
  EXPECT_NE(require_format(tensors[0]).name, "");
  for (const std::size_t i : {1, 2, 3, 4})
    expect_bad_input([&] { require_format(tensors[i]); },
                     {tensors[i].name, tensors[i].dtype, "w.safetensors"});
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string good = file_of(kGoodHeader, kGoodData);
  for (std::size_t size = 0; size < good.size(); ++size)
    expect_refused(good.substr(0, size), {"w.safetensors"});
  expect_refused(good.substr(0, good.size() - 1), {"tensor b", "22", "21"});
  expect_refused(good + "x", {"1 bytes follow", "(b)"});
}

TEST(Safetensors, RefusesOffsetsThatLie) {
  const auto two = [](const std::string& a, const std::string& b) {
    return file_of("{" + entry("a", "U8", "[4]", a) + "," + entry("b", "U8", "[4]", b) + "}",
                   "12345678");
  };
  EXPECT_EQ(parse(two("[4,8]", "[0,4]")).size(), 2u);
  expect_refused(two("[0,4]", "[2,6]"), {"tensor b", "overlap"});
  expect_refused(two("[0,4]", "[0,4]"), {"overlap"});
  expect_refused(two("[1,5]", "[5,9]"), {"tensor b", "holds 8"});
  expect_refused(two("[4,0]", "[4,8]"), {"tensor a", "before it starts"});
  expect_refused(
      file_of("{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[4]", "[4,8]") + "}",
              "12345678"),
      {"tensor b", "hole"});
  expect_refused(two("[0,18446744073709551615]", "[4,8]"), {"2^63"});
  expect_refused(two("[0,9223372036854775807]", "[4,8]"), {"tensor a"});
  expect_refused(two("[0,4,5]", "[4,8]"), {"tensor 'a'", "offsets"});
  expect_refused(two("[0]", "[4,8]"), {"tensor a"});
  expect_refused(two("[-1,4]", "[4,8]"), {"negative"});
  expect_refused(two("[0,4.0]", "[4,8]"), {"fraction"});
  expect_refused(two("[0,4e0]", "[4,8]"), {"fraction"});
}

TEST(Safetensors, RefusesShapesThatLie) {
  const auto one = [](const std::string& dtype, const std::string& shape) {
    return file_of("{" + entry("w", dtype, shape, "[0,4]") + "}", "1234");
  };
  EXPECT_EQ(parse(one("F32", "[1]")).size(), 1u);
  EXPECT_EQ(parse(one("F4", "[8]")).size(), 1u);
  expect_refused(one("F32", "[1000,1000]"), {"tensor w", "[1000,1000]", "4000000", "has 4"});
  expect_refused(one("F16", "[1]"), {"tensor w", "needs 2"});
  expect_refused(one("F32", "[9223372036854775807,2]"), {"impossible"});
  expect_refused(one("F32", "[4611686018427387904]"), {"impossible"});
  expect_refused(one("F32", "[9223372036854775808]"), {"2^63"});
  expect_refused(one("F4", "[7]"), {"impossible"});
  expect_refused(one("F32", "[-1]"), {"negative"});
  expect_refused(one("F32", "[[1]]"), {"list"});
  expect_refused(one("F32", "[\"1\"]"), {"text"});
  expect_refused(one("F33", "[1]"), {"tensor w", "unknown dtype 'F33'"});
  std::string dims = "[1";
  for (int i = 0; i < 40; ++i) dims += ",1";
  expect_refused(one("F32", dims + "]"), {"dimensions"});
}

TEST(Safetensors, RefusesOddHeaders) {
  const std::string a = entry("a", "U8", "[4]", "[0,4]");
  expect_refused(file_of("{" + a + "," + a + "}", "1234"), {"tensor a occurs twice"});
  for (const std::string header :
       {"[]", "", " {}", "{", "{\"a\":1}", "{\"a\":{}}", "{\"a\":null}", "{\"a\":[]}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", "{\"a\":{\"dtype\":{},\"shape\":[]}}",
        "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"U8\",\"strides\":[4],\"shape\":[4],\"data_offsets\":[0,4]}}",
        "{\"__metadata__\":{\"a\":{}}}", "{\"__metadata__\":[]}", "{\"\xff\":{}}", "{} {}"})
    expect_refused(file_of(header, "1234"), {"w.safetensors"});
  expect_refused(file_of("{" + entry(std::string(5000, 'n'), "U8", "[4]", "[0,4]") + "}", "1234"),
                 {"5000"});
  expect_refused(raw<std::uint64_t>(std::uint64_t{1} << 63) + "{}", {"header"});
  expect_refused(raw<std::uint64_t>(~std::uint64_t{0}) + "{}", {"header"});
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n", {"LFS"});
  expect_refused(file_of(std::string(1 << 20, '['), ""), {"w.safetensors"});
  EXPECT_TRUE(parse(file_of("{}", "")).empty());
}

// ---- folders and indexes

const std::string kShard1 = file_of("{" + entry("x", "U8", "[4]", "[0,4]") + "}", "1234");
const std::string kShard2 = file_of(
    "{" + entry("y", "U8", "[2]", "[0,2]") + "," + entry("z", "U8", "[2]", "[2,4]") + "}", "5678");

struct Sharded : testing::Test {
  void SetUp() override {
    folder.write("m-1.safetensors", kShard1);
    folder.write("m-2.safetensors", kShard2);
    index(R"({"x":"m-1.safetensors","y":"m-2.safetensors","z":"m-2.safetensors"})");
  }
  void index(const std::string& weight_map) {
    folder.write("model.safetensors.index.json",
                 R"({"metadata":{"total_size":8},"weight_map":)" + weight_map + "}");
  }
  void expect_refused(std::initializer_list<std::string_view> parts) {
    expect_bad_input([&] { open_safetensors(folder.path()); }, parts);
  }
  TemporaryFolder folder;
};

TEST_F(Sharded, OpensAll) {
  const auto source = open_safetensors(folder.path());
  EXPECT_EQ(source->tensors().size(), 3u);
  ASSERT_NE(source->find("z"), nullptr);
  EXPECT_EQ(static_cast<char>(source->find("z")->bytes[0]), '7');
  EXPECT_EQ(source->find("z")->file.filename(), "m-2.safetensors");
  EXPECT_EQ(source->find("nope"), nullptr);
  expect_bad_input([&] { source->require("nope"); }, {"tensor nope is missing"});
}

TEST_F(Sharded, SingleFileWinsAndOtherFilesAreNotTouched) {
  folder.write("consolidated.safetensors", "rubbish");
  EXPECT_EQ(open_safetensors(folder.path())->tensors().size(), 3u);
  folder.write("model.safetensors", kShard1);
  EXPECT_EQ(open_safetensors(folder.path())->tensors().size(), 1u);
  EXPECT_EQ(open_safetensors(folder.path() / "m-2.safetensors")->tensors().size(), 2u);
}

TEST_F(Sharded, RefusesAMissingShard) {
  std::filesystem::remove(folder.path() / "m-2.safetensors");
  expect_refused({"m-2.safetensors is not there", "tensor y"});
}

TEST_F(Sharded, RefusesAShardNobodyWrote) {
  index(
      R"({"x":"m-1.safetensors","y":"m-2.safetensors","z":"m-2.safetensors","q":"m-3.safetensors"})");
  expect_refused({"m-3.safetensors is not there", "tensor q"});
}

TEST_F(Sharded, RefusesATensorTheIndexLacks) {
  index(R"({"x":"m-1.safetensors","y":"m-2.safetensors"})");
  expect_refused({"m-2.safetensors", "tensor z", "does not list"});
}

TEST_F(Sharded, RefusesATensorThatIsNotWhereTheIndexSays) {
  index(R"({"x":"m-1.safetensors","y":"m-2.safetensors","z":"m-1.safetensors"})");
  expect_refused({"tensor z", "m-1.safetensors"});
  index(
      R"({"x":"m-1.safetensors","y":"m-2.safetensors","z":"m-2.safetensors","v":"m-1.safetensors"})");
  expect_refused({"tensor v is not in m-1.safetensors"});
}

TEST_F(Sharded, RefusesATruncatedShard) {
  folder.write("m-2.safetensors", kShard2.substr(0, kShard2.size() / 2));
  expect_refused({"m-2.safetensors"});
  folder.write("m-2.safetensors", kShard2.substr(0, kShard2.size() - 1));
  expect_refused({"m-2.safetensors", "tensor z"});
  folder.write("m-2.safetensors", "");
  expect_refused({"m-2.safetensors"});
}

TEST_F(Sharded, RefusesPathsAndOddIndexes) {
  for (const char* name : {"../m-1.safetensors", "/etc/passwd", "a/b", "", ".", ".."}) {
    index(fmt::format(R"({{"x":"{}"}})", name));
    expect_refused({"tensor x", "no plain file name"});
  }
  index("{\"x\":7}");
  expect_refused({"no plain file name"});
  index("{}");
  expect_refused({"no weight_map"});
  index("[]");
  expect_refused({"no weight_map"});
  folder.write("model.safetensors.index.json", "{");
  expect_refused({"model.safetensors.index.json"});
  folder.write("model.safetensors.index.json", "[]");
  expect_refused({"no weight_map"});
  std::filesystem::remove(folder.path() / "model.safetensors.index.json");
  expect_refused({"neither"});
}

TEST(Safetensors, MillionTensorHeaderIsRefusedQuickly) {
  // 100 MB of claims must not become gigabytes: the reader stops at the first lie.
  std::string header = "{";
  for (int i = 0; i < 20000; ++i)
    header += entry("t" + std::to_string(i), "F32", "[1]", "[0,4]") + ",";
  header.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  expect_refused(file_of(header, "1234"), {"overlap"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

}  // namespace
}  // namespace ingot
