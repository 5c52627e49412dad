#include "base/file.h"
#include "base/json.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

// Ids and texts frozen from the `tokenizers` library (tests/oracle).
namespace ingot {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

Json load(const fs::path& path) {
  return parse_json(read_file(path), path.string());
}

std::vector<fs::path> fixtures() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(fs::path(INGOT_FIXTURES) / "tokenizers"))
    if (fs::exists(entry.path() / "tokenizer.json")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

class TokenizerFixture : public testing::TestWithParam<fs::path> {
 protected:
  TokenizerFixture() : tokenizer_(tokenizer_from_json(read_file(GetParam() / "tokenizer.json"))) {}

  std::string stream(const Ids& ids, bool skip_special) const {
    TokenStream stream(tokenizer_, {.skip_special = skip_special});
    std::string text;
    for (const std::int32_t id : ids) text += stream.push(id);
    return text + stream.finish();
  }

  void expect_decoded(const Json& entry, const Ids& ids) const {
    for (const bool skip : {false, true}) {
      const auto wanted = entry.at(skip ? "decoded_skip" : "decoded").get<std::string>();
      EXPECT_EQ(tokenizer_.decode(ids, {.skip_special = skip}), wanted);
      EXPECT_EQ(stream(ids, skip), wanted);
    }
  }

  Tokenizer tokenizer_;
};

TEST_P(TokenizerFixture, EncodesAndDecodesAsTheLibrary) {
  for (const Json& entry : load(GetParam() / "cases.json")) {
    const auto text = entry.at("text").get<std::string>();
    SCOPED_TRACE(testing::PrintToString(text));
    EXPECT_EQ(tokenizer_.encode(text, {.add_special = true}), entry.at("ids_special").get<Ids>());
    const auto plain = entry.at("ids_plain").get<Ids>();
    EXPECT_EQ(tokenizer_.encode(text, {.add_special = false}), plain);
    expect_decoded(entry, entry.at("ids_special").get<Ids>());
  }
}

TEST_P(TokenizerFixture, DecodesAnyIdsAsTheLibrary) {
  const fs::path path = GetParam() / "decode.json";
  if (!fs::exists(path)) return;
  for (const Json& entry : load(path)) {
    const auto ids = entry.at("ids").get<Ids>();
    SCOPED_TRACE(testing::PrintToString(ids));
    expect_decoded(entry, ids);
  }
}

TEST_P(TokenizerFixture, LongRunsAsTheLibrary) {
  const fs::path path = GetParam() / "long.json";
  if (!fs::exists(path)) return;
  for (const Json& entry : load(path)) {
    std::string text;
    for (int i = 0; i < entry.at("count").get<int>(); ++i)
      text += entry.at("unit").get<std::string>();
    text += entry.at("suffix").get<std::string>();
    Ids wanted;
    for (const Json& run : entry.at("ids_plain_runs"))
      wanted.insert(wanted.end(), run.at(1).get<std::size_t>(), run.at(0).get<std::int32_t>());
    EXPECT_EQ(tokenizer_.encode(text, {.add_special = false}), wanted) << entry.at("unit");
  }
}

TEST_P(TokenizerFixture, ImageGivesTheSame) {
  const std::string bytes = tokenizer_.serialize();
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const Tokenizer opened = Tokenizer::open(std::as_bytes(std::span(aligned)).first(bytes.size()));
  EXPECT_EQ(opened.serialize(), bytes);
  for (const Json& entry : load(GetParam() / "cases.json"))
    EXPECT_EQ(opened.encode(entry.at("text").get<std::string>()),
              entry.at("ids_special").get<Ids>());
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFixture, testing::ValuesIn(fixtures()),
                         [](const auto& info) { return info.param.filename().string(); });

}  // namespace
}  // namespace ingot
