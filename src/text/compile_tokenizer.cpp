#include "base/hash.h"
#include "text/json_fields.h"
#include "text/merge_table.h"
#include "text/normalizer.h"
#include "text/tokenizer_spec.h"
#include "text/trie.h"
#include "text/utf8.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>
#include <unordered_map>

namespace ingot {
namespace {

constexpr std::size_t kMaxTokenBytes = 64 * 1024;
constexpr std::string_view kMark = "▁";

// Ids of equal spelling: the last one is found, as in a map that is filled in order, but a token of
// the model comes before one that is not.
std::vector<std::uint32_t> hash_tokens(const TokenizerSpec& spec) {
  std::vector<std::uint32_t> table(std::bit_ceil(spec.tokens.size() * 2 + 2), 0);
  const std::size_t mask = table.size() - 1;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if ((spec.flags[id] & kPresent) == 0) continue;
    std::size_t slot = hash64(spec.tokens[id]) & mask;
    while (table[slot] != 0 && spec.tokens[table[slot] - 1] != spec.tokens[id])
      slot = (slot + 1) & mask;
    const bool keep = table[slot] != 0 && (spec.flags[table[slot] - 1] & kInModel) != 0 &&
                      (spec.flags[id] & kInModel) == 0;
    if (!keep) table[slot] = static_cast<std::uint32_t>(id + 1);
  }
  return table;
}

void write_tokens(const TokenizerSpec& spec, const Json& respelled, ImageWriter& writer) {
  std::vector<std::uint8_t> flags = spec.flags;
  for (const auto& [id, text] : respelled.items())
    flags[static_cast<std::size_t>(std::stoul(id))] |= kRespelled;
  std::vector<std::uint32_t> offsets{0};
  std::string bytes;
  for (const std::string& token : spec.tokens) {
    bytes += token;
    if (bytes.size() > std::numeric_limits<std::uint32_t>::max() / 2)
      fail(ErrorCode::kBadInput, "[tokenizer] the vocabulary has over 2 GiB of text");
    offsets.push_back(static_cast<std::uint32_t>(bytes.size()));
  }
  writer.set(Section::kTokenBytes, std::move(bytes));
  writer.set_array<std::uint32_t>(Section::kTokenOffsets, offsets);
  writer.set_array<std::uint8_t>(Section::kTokenFlags, flags);
  writer.set_array<std::uint32_t>(Section::kTokenTable, hash_tokens(spec));
}

// Returns the spellings in which the library decodes normalised added tokens: {id: text}.
Json write_added(const TokenizerSpec& spec, ImageWriter& writer) {
  Json respelled = Json::object();
  const auto normalizer = make_normalizer(*spec.normalizer, spec.charsmap);
  RegexScratch scratch;
  std::vector<AddedRecord> records;
  std::vector<std::string> spellings;
  for (const AddedTokenSpec& token : spec.added) {
    NormalizedText text{token.content, true};
    if (token.normalized && !token.as_spelled && normalizer) normalizer->apply(text, scratch);
    if (text.text != token.content) respelled[std::to_string(token.id)] = text.text;
    spellings.push_back(std::move(text.text));
    records.push_back({token.id, (token.special ? kAddedSpecial : 0u) |
                                     (token.single_word ? kAddedSingleWord : 0u) |
                                     (token.lstrip ? kAddedLstrip : 0u) |
                                     (token.rstrip ? kAddedRstrip : 0u)});
  }
  for (const bool normalized : {false, true}) {
    std::vector<std::pair<std::string_view, std::int32_t>> keys;
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < spellings.size(); ++i) {
      if (spec.added[i].normalized != normalized || spellings[i].empty()) continue;
      if (spellings[i].size() > 4096)
        fail(ErrorCode::kBadInput, "[tokenizer] an added token of {} bytes, limit 4096",
             spellings[i].size());
      if (seen.insert(spellings[i]).second)
        keys.emplace_back(spellings[i], static_cast<std::int32_t>(i));
    }
    if (!keys.empty())
      writer.set_array<TrieNode>(normalized ? Section::kNormalizedTrie : Section::kAddedTrie,
                                 build_trie(std::move(keys)));
  }
  writer.set_array<AddedRecord>(Section::kAdded, records);
  return respelled;
}

void write_trie(const TokenizerSpec& spec, ImageWriter& writer) {
  std::vector<std::pair<std::string_view, std::int32_t>> keys;
  std::unordered_map<std::string_view, std::size_t> place;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if ((spec.flags[id] & kInModel) == 0 || spec.tokens[id].empty()) continue;
    const auto [it, fresh] = place.emplace(spec.tokens[id], keys.size());
    if (fresh)
      keys.emplace_back(spec.tokens[id], static_cast<std::int32_t>(id));
    else
      keys[it->second].second = static_cast<std::int32_t>(id);
  }
  if (!keys.empty()) writer.set_array<TrieNode>(Section::kTrie, build_trie(std::move(keys)));
  writer.set_array<double>(Section::kScores, spec.scores);
}

// Whether no token has the mark behind another character. Then no merge reaches across such a place
// and a text may be cut there, which lets the word cache work for models without pre-tokenizer.
bool may_cut_at_mark(const TokenizerSpec& spec) {
  bool has_mark = false;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    if ((spec.flags[id] & (kInModel | kPresent)) == 0) continue;
    const std::string& text = spec.tokens[id];
    if (text == kMark && (spec.flags[id] & kInModel) != 0) has_mark = true;
    if ((spec.flags[id] & kAdded) != 0 && (spec.flags[id] & kInModel) == 0) continue;
    for (std::size_t at = text.find(kMark); at != std::string::npos;
         at = text.find(kMark, at + kMark.size()))
      if (at != 0 &&
          (at < kMark.size() || text.compare(at - kMark.size(), kMark.size(), kMark) != 0))
        return false;
  }
  return has_mark;
}

Json pipeline_of(const TokenizerSpec& spec) {
  Json pipeline;
  pipeline["model"] = *spec.model;
  const std::string type = string_field(*spec.model, "type");
  if (type == "BPE" && string_field(*spec.model, "continuing_subword_prefix").empty() &&
      string_field(*spec.model, "end_of_word_suffix").empty() && may_cut_at_mark(spec))
    pipeline["model"]["cut_mark"] = kMark;
  pipeline["normalizer"] = *spec.normalizer;
  pipeline["pre_tokenizer"] = *spec.pre_tokenizer;
  pipeline["decoder"] = *spec.decoder;
  pipeline["prefix"] = spec.prefix;
  pipeline["suffix"] = spec.suffix;
  std::set<std::int32_t> ends(spec.ends.begin(), spec.ends.end());
  if (spec.eos) ends.insert(*spec.eos);
  pipeline["ends"] = ends;
  const auto put_id = [&](const char* name, const std::optional<std::int32_t>& id) {
    if (id) pipeline[name] = *id;
  };
  put_id("bos", spec.bos);
  put_id("eos", spec.eos);
  put_id("pad", spec.pad);
  put_id("unk", spec.unk);
  pipeline["clean_up"] = spec.clean_up && type != "BPE";  // it would corrupt BPE's output
  return pipeline;
}

}  // namespace

TokenizerSpec::TokenizerSpec()
    : model(std::make_unique<Json>()),
      normalizer(std::make_unique<Json>()),
      pre_tokenizer(std::make_unique<Json>()),
      decoder(std::make_unique<Json>()) {}
TokenizerSpec::~TokenizerSpec() = default;

void TokenizerSpec::put(std::int64_t id, std::string text, std::uint8_t token_flags,
                        std::size_t limit) {
  if (id < 0 || id >= static_cast<std::int64_t>(std::min<std::size_t>(limit, kMaxTokens)))
    fail(ErrorCode::kBadInput, "[tokenizer] token {:?} has id {}, limit {}", text.substr(0, 80), id,
         std::min<std::size_t>(limit, kMaxTokens));
  if (text.size() > kMaxTokenBytes)
    fail(ErrorCode::kBadInput, "[tokenizer] token {} has {} bytes, limit {}", id, text.size(),
         kMaxTokenBytes);
  const auto at = static_cast<std::size_t>(id);
  if (at >= tokens.size()) {
    tokens.resize(at + 1);
    flags.resize(at + 1, 0);
  }
  tokens[at] = std::move(text);
  flags[at] = static_cast<std::uint8_t>(token_flags | kPresent);
}

std::optional<std::int32_t> find_token(const TokenizerSpec& spec, std::string_view text) {
  for (std::size_t id = spec.tokens.size(); id-- > 0;)
    if ((spec.flags[id] & kPresent) != 0 && spec.tokens[id] == text)
      return static_cast<std::int32_t>(id);
  return std::nullopt;
}

std::vector<std::byte> compile_tokenizer(const TokenizerSpec& spec) {
  ImageWriter writer;
  Json pipeline = pipeline_of(spec);
  pipeline["respelled"] = write_added(spec, writer);
  write_tokens(spec, pipeline["respelled"], writer);
  const std::string type = string_field(*spec.model, "type");
  if (type == "BPE") writer.set_array<MergeSlot>(Section::kMerges, place_merges(spec.merges));
  if (type == "Unigram") {
    write_trie(spec, writer);
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t id = 0; id < spec.scores.size(); ++id)
      if ((spec.flags[id] & kPresent) != 0) least = std::min(least, spec.scores[id]);
    if (least < 1e30) pipeline["model"]["min_score"] = least;
  }
  writer.set(Section::kCharsmap, spec.charsmap);
  writer.set(Section::kPipeline, dump_json(pipeline));
  return writer.finish();
}

std::vector<MergeSlot> merges_by_score(const std::vector<std::string>& tokens,
                                       const std::vector<std::uint8_t>& flags,
                                       const std::vector<double>& scores) {
  std::unordered_map<std::string_view, std::uint32_t> ids;
  std::vector<double> levels;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if ((flags[id] & kInModel) == 0) continue;
    ids[tokens[id]] = static_cast<std::uint32_t>(id);
    levels.push_back(scores[id]);
  }
  std::sort(levels.begin(), levels.end(), std::greater<>());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  std::vector<MergeSlot> merges;
  for (const auto& [text, id] : ids) {
    if (text.size() > 1024) continue;
    const auto rank = static_cast<std::uint32_t>(
        std::lower_bound(levels.begin(), levels.end(), scores[id], std::greater<>()) -
        levels.begin());
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if ((text[cut] & 0xc0) == 0x80) continue;
      const auto left = ids.find(text.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(text.substr(cut));
      if (right != ids.end()) merges.push_back({left->second, right->second, rank, id});
    }
  }
  return merges;
}

}  // namespace ingot
