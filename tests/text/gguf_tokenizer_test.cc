#include "base/file.h"
#include "formats/gguf.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/text/gguf_vocab.h"
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

// Real vocabularies with texts and ids published beside them; fetched by scripts, not committed.
namespace ingot {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

fs::path vocab_folder() {
  const char* cache = std::getenv("INGOT_CACHE");
  const char* home = std::getenv("HOME");
  const fs::path root =
      cache != nullptr ? fs::path(cache) : fs::path(home ? home : "") / ".cache/ingot";
  return root / "llama.cpp-models";
}

std::vector<std::string> split_text(const std::string& text, const std::string& by) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  for (std::size_t next; (next = text.find(by, at)) != std::string::npos; at = next + by.size())
    parts.push_back(text.substr(at, next - at));
  parts.push_back(text.substr(at));
  return parts;
}

Ids parse_ids(const std::string& line) {
  std::istringstream in(line);
  Ids ids;
  for (std::int32_t id; in >> id;) ids.push_back(id);
  return ids;
}

class GgufVocabulary : public testing::TestWithParam<std::string> {};

TEST_P(GgufVocabulary, EncodesAsPublished) {
  const fs::path file = vocab_folder() / ("ggml-vocab-" + GetParam() + ".gguf");
  if (!fs::exists(file)) GTEST_SKIP() << "not fetched: " << file;
  const MappedFile mapped(file);
  const GgufContents contents = parse_gguf(mapped.bytes(), file);
  const Tokenizer tokenizer = tokenizer_from_gguf(read_gguf_vocab(contents.metadata));

  const std::string image = tokenizer.serialize();
  std::vector<std::uint64_t> aligned((image.size() + 7) / 8);
  std::memcpy(aligned.data(), image.data(), image.size());
  const auto start = std::chrono::steady_clock::now();
  const Tokenizer opened = Tokenizer::open(std::as_bytes(std::span(aligned)).first(image.size()));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  RecordProperty("open_ms", std::to_string(took.count()));
  RecordProperty("image_bytes", std::to_string(image.size()));

  const fs::path texts = file.string() + ".inp";
  if (!fs::exists(texts)) return;  // a vocabulary without texts: loading is the test
  const auto inputs = split_text(read_file(texts), "\n__ggml_vocab_test__\n");
  std::istringstream lines(read_file(file.string() + ".out"));
  for (const std::string& text : inputs) {
    std::string line;
    if (!std::getline(lines, line)) break;
    const Ids wanted = parse_ids(line);
    const Ids got = opened.encode(text, {.add_special = false, .parse_special = false});
    EXPECT_EQ(got, wanted) << testing::PrintToString(text);
    std::string streamed;
    TokenStream stream(opened);
    for (const std::int32_t id : wanted) streamed += stream.push(id);
    streamed += stream.finish();
    EXPECT_EQ(streamed, opened.decode(wanted));
    if (GetParam() == "gpt-2" || GetParam() == "llama-bpe" || GetParam() == "llama-spm") {
      EXPECT_EQ(opened.decode(got), text);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufVocabulary,
                         testing::Values("aquila", "baichuan", "bert-bge", "command-r",
                                         "deepseek-coder", "deepseek-llm", "falcon", "gemma-4",
                                         "gpt-2", "gpt-neox", "llama-bpe", "llama-spm", "mpt",
                                         "nomic-bert-moe", "phi-3", "qwen2", "qwen35", "refact",
                                         "starcoder"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace ingot
