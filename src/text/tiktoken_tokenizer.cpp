#include "text/base64.h"
#include "text/byte_level.h"
#include "text/json_fields.h"
#include "text/scanners.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

// tiktoken's rank files: the token of a rank is the bytes that a line gives in base64.
namespace ingot {
namespace {

constexpr auto kBad = ErrorCode::kBadInput;
constexpr std::size_t kControlTokens = 256;

using Ranks = std::vector<std::pair<std::string, std::int64_t>>;

Ranks read_ranks(std::string_view text) {
  Ranks ranks;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::size_t blank = line.find(' ');
    std::int64_t rank = -1;
    if (blank != std::string_view::npos)
      std::from_chars(line.data() + blank + 1, line.data() + line.size(), rank);
    if (rank < 0 || rank >= kMaxTokens)
      fail(kBad, "[tiktoken] line {}: wanted base64, a blank and a rank", ranks.size() + 1);
    ranks.emplace_back(decode_base64(line.substr(0, blank)), rank);
    if (ranks.back().first.empty() || ranks.back().first.size() > 1024)
      fail(kBad, "[tiktoken] line {}: a token of {} bytes", ranks.size(),
           ranks.back().first.size());
  }
  if (ranks.empty()) fail(kBad, "[tiktoken] no ranks");
  return ranks;
}

// Any two tokens whose bytes together are a token may join, lowest rank first.
void add_merges(const Ranks& ranks, TokenizerSpec& spec) {
  std::unordered_map<std::string_view, std::uint32_t> ids;
  for (const auto& [bytes, rank] : ranks) ids[bytes] = static_cast<std::uint32_t>(rank);
  for (const auto& [bytes, rank] : ranks) {
    const std::string_view text = bytes;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = ids.find(text.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(text.substr(cut));
      if (right != ids.end())
        spec.merges.push_back({left->second, right->second, static_cast<std::uint32_t>(rank),
                               static_cast<std::uint32_t>(rank)});
    }
  }
}

// Control tokens of Meta's Llama 3 family, in the order of their ids after the ranks.
std::vector<std::string> control_tokens() {
  std::vector<std::string> names = {"<|begin_of_text|>",
                                    "<|end_of_text|>",
                                    "<|reserved_special_token_0|>",
                                    "<|reserved_special_token_1|>",
                                    "<|finetune_right_pad_id|>",
                                    "<|step_id|>",
                                    "<|start_header_id|>",
                                    "<|end_header_id|>",
                                    "<|eom_id|>",
                                    "<|eot_id|>",
                                    "<|python_tag|>"};
  for (int i = 2; names.size() < kControlTokens; ++i)
    names.push_back("<|reserved_special_token_" + std::to_string(i) + "|>");
  return names;
}

}  // namespace

bool is_tiktoken(std::string_view bytes) {
  const std::size_t end = std::min({bytes.find('\n'), bytes.size(), std::size_t{2048}});
  const std::string_view line = bytes.substr(0, end);
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos || blank == 0 || blank + 1 >= line.size()) return false;
  return line.substr(0, blank).find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
             std::string_view::npos &&
         line.substr(blank + 1).find_first_not_of("0123456789\r") == std::string_view::npos;
}

Tokenizer tokenizer_from_tiktoken(std::string_view text) {
  const Ranks ranks = read_ranks(text);
  TokenizerSpec spec;
  for (const auto& [bytes, rank] : ranks)
    spec.put(rank, to_byte_level(bytes), kInModel | kModelVocab, ranks.size() * 4 + 65536);
  add_merges(ranks, spec);
  for (std::string& name : control_tokens()) {
    const auto id = static_cast<std::int32_t>(spec.tokens.size());
    spec.put(id, name, kAdded | kSpecial, kMaxTokens);
    if (name == "<|begin_of_text|>") spec.bos = id;
    if (name == "<|end_of_text|>") spec.eos = id;
    if (name == "<|eot_id|>" || name == "<|eom_id|>") spec.ends.push_back(id);
    if (name == "<|finetune_right_pad_id|>") spec.pad = id;
    spec.added.push_back({.content = std::move(name), .id = id, .special = true});
  }
  spec.prefix = {*spec.bos};
  *spec.model = {{"type", "BPE"}, {"ignore_merges", true}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kLlama3Pattern}}}, {"behavior", "Isolated"}};
  *spec.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", Json::array({split, bytes})}};
  *spec.decoder = bytes;
  return Tokenizer::own(compile_tokenizer(spec));
}

}  // namespace ingot
