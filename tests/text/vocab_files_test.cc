#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "text/base64.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// SentencePiece models and tiktoken rank files against ids frozen from those libraries.
namespace ingot {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

const fs::path kFixtures = INGOT_FIXTURES;

std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  TokenStream stream(tokenizer);
  std::string text;
  for (const std::int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

class SentencePieceFile : public testing::TestWithParam<std::string> {};

TEST_P(SentencePieceFile, AsTheLibrary) {
  const fs::path base = kFixtures / "sentencepiece" / GetParam();
  const std::string bytes = read_file(base.string() + ".model");
  EXPECT_FALSE(is_tiktoken(bytes));
  const Tokenizer tokenizer = tokenizer_from_sentencepiece(bytes);
  const Json frozen = parse_json(read_file(base.string() + ".json"), "cases");
  EXPECT_EQ(tokenizer.vocab_size(), frozen.at("vocab_size").get<int>());
  for (const Json& entry : frozen.at("cases")) {
    const auto text = entry.at("text").get<std::string>();
    SCOPED_TRACE(testing::PrintToString(text));
    const Ids ids = tokenizer.encode(text, {.add_special = false, .parse_special = false});
    EXPECT_EQ(ids, entry.at("ids").get<Ids>());
    EXPECT_EQ(tokenizer.decode(entry.at("ids").get<Ids>()), entry.at("decoded").get<std::string>());
  }
  for (const Json& entry : frozen.at("decode")) {
    const auto ids = entry.at("ids").get<Ids>();
    SCOPED_TRACE(testing::PrintToString(ids));
    EXPECT_EQ(tokenizer.decode(ids), entry.at("decoded").get<std::string>());
    EXPECT_EQ(streamed(tokenizer, ids), entry.at("decoded").get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(All, SentencePieceFile,
                         testing::Values("llama_bpe", "gemma_bpe", "t5_unigram", "unigram_bytes",
                                         "unigram_suffix"));

TEST(TiktokenFile, AsTheLibrary) {
  const fs::path folder = kFixtures / "tiktoken";
  const std::string ranks = read_file(folder / "small.tiktoken");
  ASSERT_TRUE(is_tiktoken(ranks));
  const Tokenizer tokenizer = tokenizer_from_tiktoken(ranks);
  const Json frozen = parse_json(read_file(folder / "small.json"), "cases");
  for (const auto& [text, id] : frozen.at("special_tokens").items())
    EXPECT_EQ(tokenizer.token_id(text), id.get<std::int32_t>());
  EXPECT_EQ(tokenizer.vocab_size(), 400 + 256);
  for (const Json& entry : frozen.at("cases")) {
    const auto text = entry.at("text").get<std::string>();
    SCOPED_TRACE(testing::PrintToString(text));
    const auto plain = entry.at("ids_plain").get<Ids>();
    EXPECT_EQ(tokenizer.encode(text, {.add_special = false, .parse_special = false}), plain);
    EXPECT_EQ(tokenizer.encode(text, {.add_special = false}), entry.at("ids_special").get<Ids>());
    EXPECT_EQ(tokenizer.decode(plain), entry.at("decoded").get<std::string>());
  }
  for (const Json& entry : frozen.at("decode")) {
    const auto ids = entry.at("ids").get<Ids>();
    const std::string wanted =
        lossy_utf8(decode_base64(entry.at("bytes_base64").get<std::string>()));
    EXPECT_EQ(tokenizer.decode(ids, {.skip_special = false}), wanted);
  }
}

TEST(SentencePieceFile, BrokenBytesAreOneError) {
  const std::string good = read_file(kFixtures / "sentencepiece" / "llama_bpe.model");
  for (std::size_t size = 0; size < good.size(); size += 97) {
    const std::string cut = good.substr(0, size);
    try {
      tokenizer_from_sentencepiece(cut);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    }
  }
  for (std::size_t at = 0; at < good.size(); at += 61) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0xff);
    try {
      tokenizer_from_sentencepiece(bad);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    }
  }
}

TEST(TiktokenFile, BrokenLinesAreOneError) {
  for (const char* text : {"", "\n", "AA==", "AA== x", "AA== -1", "?? 0", "AA== 99999999999"})
    EXPECT_THROW(tokenizer_from_tiktoken(text), Error) << text;
}

}  // namespace
}  // namespace ingot
