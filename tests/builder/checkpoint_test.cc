#include "builder/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "builder/checkpoint_files.h"
#include "formats/npy.h"
#include "llm/devices.h"
#include "llm/model.h"
#include "llm/resolve.h"

#include <gtest/gtest.h>

#include "tests/builder/edited_checkpoint.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

namespace fs = std::filesystem;

using test::EditedCheckpoint;
using test::StoredTensor;

const fs::path kFixtures = INGOT_FIXTURES;
const fs::path kLlama = kFixtures / "models" / "llama";
constexpr std::size_t kVocab = 320;

class CheckpointTest : public testing::Test {
 protected:
  static OpenOptions options(ComputeMode mode = ComputeMode::kF32) {
    OpenOptions o;
    o.device = "cpu";
    o.threads = 1;
    o.build.mode = mode;
    o.build.max_batch = 1;
    return o;
  }

  static std::vector<float> score(Model& model, const std::vector<std::int32_t>& tokens,
                                  std::int64_t steps = 0) {
    std::vector<float> all;
    model.score(tokens, steps, [&](std::int64_t, std::int64_t, std::span<const float> rows) {
      all.insert(all.end(), rows.begin(), rows.end());
    });
    return all;
  }

  static std::vector<float> logits(const fs::path& path, const OpenOptions& o = options()) {
    return score(*Model::open(path, o), prompt());
  }

  static std::vector<std::int32_t> prompt() {
    std::vector<std::int32_t> tokens = tokens_of(kLlama, "prompt");
    tokens.resize(8);
    return tokens;
  }

  static std::vector<std::int32_t> tokens_of(const fs::path& folder, const char* key) {
    const Json json = parse_json(read_file(folder / "tokens.json"), "tokens.json");
    return json.at(key).get<std::vector<std::int32_t>>();
  }

  static std::vector<std::int32_t> all_tokens_of(const fs::path& folder) {
    std::vector<std::int32_t> tokens = tokens_of(folder, "prompt");
    for (const std::int32_t id : tokens_of(folder, "continuation")) tokens.push_back(id);
    return tokens;
  }

  // The message with which a checkpoint is refused; "" when it is not.
  static std::string refusal(const fs::path& path) {
    try {
      open_checkpoint(path);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
      return e.message();
    }
    return {};
  }

  static void expect_refused(const fs::path& path, const std::vector<std::string>& parts) {
    const std::string message = refusal(path);
    EXPECT_NE(message, "");
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }

  static bool mentions(const Checkpoint& c, std::string_view what) {
    return std::any_of(c.notices.begin(), c.notices.end(),
                       [&](const std::string& n) { return n.find(what) != std::string::npos; });
  }

  test::OwnCache cache_;
};

float worst_difference(const std::vector<float>& a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  float worst = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) : INFINITY);
  return worst;
}

double cosine(const std::vector<float>& a, std::span<const float> b) {
  EXPECT_EQ(a.size(), b.size());
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

TEST_F(CheckpointTest, ShardsAndIndexMustAgree) {
  const fs::path original = kFixtures / "models" / "llama_bf16_sharded";
  const auto copy = [&](const test::TemporaryFolder& folder) {
    fs::copy(original, folder.path(),
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    return folder.path();
  };
  const test::TemporaryFolder a, b, c, d;
  EXPECT_EQ(refusal(copy(a)), "");
  fs::remove(a.path() / "model-00002-of-00003.safetensors");
  expect_refused(a.path(), {"model-00002-of-00003.safetensors"});

  const auto edit = [&](const fs::path& folder, const std::function<void(Json&)>& change) {
    const fs::path file = folder / "model.safetensors.index.json";
    Json index = parse_json(read_file(file), "index");
    change(index["weight_map"]);
    test::write_text(file, index.dump());
  };
  const std::string norm = "model.norm.weight";
  edit(copy(b), [&](Json& map) { map[norm] = "model-00009-of-00003.safetensors"; });
  expect_refused(b.path(), {"model-00009-of-00003.safetensors"});
  edit(copy(c), [&](Json& map) { map.erase(norm); });
  expect_refused(c.path(), {norm});
  edit(copy(d), [&](Json& map) { map["model.layers.7.phantom.weight"] = map[norm]; });
  expect_refused(d.path(), {"model.layers.7.phantom.weight"});
}

TEST_F(CheckpointTest, TiedHeads) {
  const std::string head = "lm_head.weight", embed = "model.embed_tokens.weight";
  const std::vector<float> untied = logits(kLlama);
  EditedCheckpoint equal(kLlama);
  equal.tensors[head] = equal.tensors[embed];
  const std::vector<float> tied = logits(equal.save());
  ASSERT_GT(worst_difference(untied, tied), 1e-3f);

  enum class Head { kDifferent, kEqual, kAbsent };
  for (const Head kind : {Head::kDifferent, Head::kEqual, Head::kAbsent})
    for (const Json& flag : {Json(true), Json(false), Json(nullptr)}) {
      SCOPED_TRACE(flag.dump() + " head " + std::to_string(static_cast<int>(kind)));
      EditedCheckpoint c(kLlama);
      if (kind == Head::kEqual) c.tensors[head] = c.tensors[embed];
      if (kind == Head::kAbsent) c.tensors.erase(head);
      if (flag.is_null()) {
        c.config().erase("tie_word_embeddings");
      } else {
        c.config()["tie_word_embeddings"] = flag;
      }
      const fs::path path = c.save();
      EditedCheckpoint nested(kLlama);  // the same, with the decoder's keys one level down
      nested.tensors = c.tensors;
      const Json decoder = c.config();
      nested.config() = {{"architectures", decoder.at("architectures")}, {"text_config", decoder}};
      if (flag == true || kind != Head::kAbsent)
        EXPECT_EQ(logits(nested.save()), logits(path));
      else
        expect_refused(nested.save(), {head, "tie_word_embeddings"});
      if (flag == true) {
        EXPECT_EQ(mentions(open_checkpoint(path), head), kind != Head::kAbsent);
        EXPECT_EQ(logits(path), tied);
      } else if (kind == Head::kAbsent) {
        expect_refused(path, {head, "tie_word_embeddings"});
      } else {
        EXPECT_EQ(logits(path), kind == Head::kEqual ? tied : untied);
      }
    }
}

TEST_F(CheckpointTest, TensorsThatNobodyNeeds) {
  EditedCheckpoint c(kLlama);
  c.tensors["transformer.h.0.attn.masked_bias"] = {.dtype = "F32", .shape = {0}, .bytes = {}};
  c.tensors["model.layers.0.scale"] = StoredTensor::floats({}, {1.5f});
  c.tensors["model.layers.0.mask"] = {.dtype = "BOOL", .shape = {4}, .bytes = std::string(4, 1)};
  c.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] =
      StoredTensor::floats({8}, std::vector<float>(8, 1));
  const fs::path path = c.save();
  const Checkpoint opened = open_checkpoint(path);
  EXPECT_TRUE(mentions(opened, "masked_bias"));
  EXPECT_TRUE(mentions(opened, "layers.0.scale"));
  EXPECT_TRUE(mentions(opened, "layers.0.mask"));
  EXPECT_EQ(logits(path), logits(kLlama));

  for (const char* name : {"model.layers.0.adapter.weight", "model.layers.2.mlp.up_proj.weight",
                           "model.layers.00.mlp.up_proj.weight", "visual.weight"}) {
    EditedCheckpoint more(kLlama);
    more.tensors[name] = StoredTensor::floats({2, 2}, {1, 2, 3, 4});
    expect_refused(more.save(), {name, "[2,2]"});
  }
}

TEST_F(CheckpointTest, MissingAndMisshapenTensorsAreNamed) {
  for (const char* name :
       {"model.norm.weight", "model.layers.1.mlp.down_proj.weight", "model.embed_tokens.weight"}) {
    EditedCheckpoint missing(kLlama);
    missing.tensors.erase(name);
    expect_refused(missing.save(), {name, "missing"});
    EditedCheckpoint turned(kLlama);
    auto& shape = turned.tensors.at(name).shape;
    if (shape.size() == 1)
      shape = {1, shape[0]};
    else
      std::swap(shape[0], shape[1]);
    expect_refused(turned.save(), {name, "wanted"});
  }
}

TEST_F(CheckpointTest, NumbersThatCannotBeUsedAreNamed) {
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  for (const char* dtype : {"F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"}) {
    EditedCheckpoint c(kLlama);
    StoredTensor& t = c.tensors.at(name);
    t.dtype = dtype;
    t.bytes.resize(t.bytes.size() / 4);
    expect_refused(c.save(), {name});
  }
}

TEST_F(CheckpointTest, EndTokensOfEveryPlace) {
  using Ids = std::vector<std::int32_t>;
  const auto ends = [](const std::function<void(EditedCheckpoint&)>& edit) {
    EditedCheckpoint c(kLlama);
    c.config().erase("eos_token_id");
    for (const char* file : {"generation_config.json", "tokenizer.json", "tokenizer_config.json"})
      fs::remove(c.file(file));
    edit(c);
    return open_checkpoint(c.save()).end_ids;
  };
  EXPECT_EQ(ends([](EditedCheckpoint&) {}), Ids{});
  EXPECT_EQ(ends([](EditedCheckpoint& c) { c.config()["eos_token_id"] = 7; }), Ids{7});
  EXPECT_EQ(ends([](EditedCheckpoint& c) { c.config()["eos_token_id"] = {9, 7, 9}; }), (Ids{7, 9}));
  EXPECT_EQ(ends([](EditedCheckpoint& c) { c.config()["eos_token_id"] = Json::array(); }), Ids{});
  EXPECT_EQ(ends([](EditedCheckpoint& c) { c.config()["eos_token_id"] = -1; }), Ids{});
  EXPECT_EQ(ends([](EditedCheckpoint& c) { c.config()["eos_token_id"] = {5, 320}; }), Ids{5});
  EXPECT_EQ(ends([](EditedCheckpoint& c) {
              test::write_text(c.file("generation_config.json"), R"({"eos_token_id": [8, 4]})");
              c.config()["eos_token_id"] = 4;
            }),
            (Ids{4, 8}));
  // The tokenizer's own.
  EXPECT_EQ(ends([](EditedCheckpoint& c) {
              for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
                fs::copy(kLlama / file, c.file(file));
              c.config()["eos_token_id"] = 6;
            }),
            (Ids{1, 6}));
  for (const Json& wrong : {Json(std::int64_t{1} << 32 | 7), Json(-2), Json("7"), Json(1.5)}) {
    EditedCheckpoint c(kLlama);
    c.config()["eos_token_id"] = wrong;
    expect_refused(c.save(), {"eos_token_id"});
    EditedCheckpoint g(kLlama);
    test::write_text(g.file("generation_config.json"), Json({{"eos_token_id", wrong}}).dump());
    expect_refused(g.save(), {"eos_token_id"});
  }
}

TEST_F(CheckpointTest, GenerationStopsAtEveryDeclaredEnd) {
  const auto usual = tokens_of(kLlama, "continuation");
  ASSERT_EQ(std::count(usual.begin(), usual.begin() + 4, usual[3]), 1);
  for (const bool in_config : {false, true}) {
    EditedCheckpoint c(kLlama);
    if (in_config) {
      c.config()["eos_token_id"] = {1, usual[3]};
    } else {
      test::write_text(c.file("generation_config.json"),
                       Json({{"eos_token_id", {1, usual[3]}}}).dump());
    }
    const auto model = Model::open(c.save(), options());
    const auto run = [&](SamplingParams sampling) {
      sampling.temperature = 0;
      sampling.max_tokens = 12;
      return model->generate(
          {.prompt = tokens_of(kLlama, "prompt"), .sampling = std::move(sampling)});
    };
    const OutputEvent stopped = run({});
    EXPECT_EQ(stopped.finish, FinishReason::kStop);
    EXPECT_EQ(stopped.tokens, (std::vector(usual.begin(), usual.begin() + 4)));
    EXPECT_EQ(stopped.text, model->tokenizer().decode({usual.data(), 3}));
    const OutputEvent on = run({.ignore_eos = true});
    EXPECT_EQ(on.finish, FinishReason::kLength);
    EXPECT_EQ(on.tokens, (std::vector(usual.begin(), usual.begin() + 12)));
    const OutputEvent late = run({.min_tokens = 10});
    EXPECT_GE(late.tokens.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i)
      for (const std::int32_t end : {1, usual[3], 3}) EXPECT_NE(late.tokens[i], end);
  }
}

TEST_F(CheckpointTest, VocabulariesOfAnySize) {
  const std::vector<float> whole = logits(kLlama);
  for (const std::size_t vocab : {std::size_t{301}, std::size_t{320}, std::size_t{331}}) {
    SCOPED_TRACE(vocab);
    EditedCheckpoint c(kLlama);
    c.config()["vocab_size"] = vocab;
    for (const char* name : {"lm_head.weight", "model.embed_tokens.weight"}) {
      StoredTensor& t = c.tensors.at(name);
      std::vector<float> values = t.as_floats();
      values.resize(vocab * 64);  // rows of padding are zeros
      t = StoredTensor::floats({static_cast<std::int64_t>(vocab), 64}, values);
    }
    const auto model = Model::open(c.save(), options());
    EXPECT_EQ(model->info().vocab, static_cast<std::int64_t>(vocab));
    std::vector<std::int32_t> tokens = prompt();
    for (std::int32_t& t : tokens) t %= 301;
    const std::vector<float> got = score(*model, tokens);
    ASSERT_EQ(got.size(), tokens.size() * vocab);
    const std::vector<float> wanted = score(*Model::open(kLlama, options()), tokens);
    const std::size_t common = std::min(vocab, kVocab);
    for (std::size_t row = 0; row < tokens.size(); ++row)
      for (std::size_t i = 0; i < vocab; ++i)
        ASSERT_EQ(got[row * vocab + i], i < common ? wanted[row * kVocab + i] : 0.0f) << row << i;
    if (vocab > kVocab) {
      for (const std::int32_t id : {320, 325, 330})
        EXPECT_EQ(model->tokenizer().decode(std::vector{id}), "") << id;
    }
    const auto result = model->loop().submit(
        {.prompt = {static_cast<std::int32_t>(vocab)}, .sampling = {.max_tokens = 1}});
    EXPECT_FALSE(result.ok());
  }
}

// The tokenizer knows more ids than the model has rows.
TEST_F(CheckpointTest, TextBeyondTheModelsVocabularyIsRefused) {
  EditedCheckpoint c(kLlama);
  c.config()["vocab_size"] = 301;
  for (const char* name : {"lm_head.weight", "model.embed_tokens.weight"}) {
    std::vector<float> values = c.tensors.at(name).as_floats();
    values.resize(301 * 64);
    c.tensors.at(name) = StoredTensor::floats({301, 64}, values);
  }
  const auto model = Model::open(c.save(), options());
  const auto submit = [&](const char* text) {
    return model->loop().submit(
        {.prompt = model->encode_prompt(text), .sampling = {.max_tokens = 1}});
  };
  EXPECT_TRUE(submit("a").ok());
  const auto refused = submit("fo");  // 319
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), ErrorCode::kRequest);
  EXPECT_NE(refused.error().message().find("319"), std::string::npos) << refused.error().message();
}

// A template writes BOS itself, a tokenizer's post-processor writes it for plain text.
TEST_F(CheckpointTest, OneBeginningOfText) {
  EditedCheckpoint c(kLlama);
  test::write_text(c.file("chat_template.jinja"),
                   "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}");
  const auto model = Model::open(c.save(), options());
  const std::int32_t bos = *model->tokenizer().bos_id();
  const OrderedJson messages =
      parse_ordered_json(R"([{"role": "user", "content": "a"}])", "messages");
  std::vector<std::int32_t> plain = model->tokenizer().encode("a", {.add_special = false});
  ASSERT_EQ(std::count(plain.begin(), plain.end(), bos), 0);
  plain.insert(plain.begin(), bos);
  EXPECT_EQ(model->encode_prompt("a"), plain);
  const auto chat =
      model->encode_chat(model->chat_template().render({.messages = &messages}).value_or_throw());
  EXPECT_EQ(chat, plain);
  EXPECT_EQ(model->generate({.prompt = chat, .sampling = {.max_tokens = 1}}).usage.prompt_tokens,
            static_cast<std::int64_t>(plain.size()));
}

TEST_F(CheckpointTest, UnknownArchitecturesListTheKnown) {
  EditedCheckpoint c(kLlama);
  c.config()["architectures"] = {"FancyForCausalLM"};
  expect_refused(c.save(), {"FancyForCausalLM", "LlamaForCausalLM", "Qwen2ForCausalLM"});
  for (const Json& names : {Json::array(), Json({"A", "B"}), Json(3), Json(nullptr)}) {
    c.config()["architectures"] = names;
    expect_refused(c.save(), {"architectures"});
  }
}

TEST_F(CheckpointTest, AbsurdConfigurationsNameTheKey) {
  const auto refused = [](const char* key, const Json& value) {
    EditedCheckpoint c(kLlama);
    c.config()[key] = value;
    expect_refused(c.save(), {key, "config.json"});
  };
  for (const char* key :
       {"num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads",
        "num_key_value_heads", "intermediate_size", "max_position_embeddings", "head_dim"})
    for (const Json& value : {Json(1000000000000000000), Json(-1), Json(0), Json("64"), Json(1.5),
                              Json(1e300), Json(UINT64_MAX), Json(true), Json::array()})
      refused(key, value);
  refused("hidden_act", "tanh");
  refused("rope_theta", 0);
  refused("rope_theta", "x");
  refused("sliding_window", 0);
  refused("partial_rotary_factor", 0);
  refused("partial_rotary_factor", 1e300);
  refused("rms_norm_eps", -1);
  refused("tie_word_embeddings", "yes");
  for (const char* wrong : {"NaN", "Infinity", "-Infinity"})
    for (const char* key : {"rope_theta", "partial_rotary_factor", "rms_norm_eps", "vocab_size"}) {
      EditedCheckpoint c(kLlama);
      c.config()[key] = "@";
      const fs::path folder = c.save();
      std::string text = c.config().dump();
      text.replace(text.find("\"@\""), 3, wrong);
      test::write_text(c.file("config.json"), text);
      expect_refused(folder, {key});
    }
  EditedCheckpoint many(kLlama);
  many.config()["num_hidden_layers"] = 4097;
  expect_refused(many.save(), {"4097 layers"});
  many.config()["num_hidden_layers"] = 3;
  expect_refused(many.save(), {"model.layers.2.", "missing"});
  for (const char* text : {"", "{", "[]", "null", "{\"a\":", "\xff\xfe"}) {
    EditedCheckpoint c(kLlama);
    const fs::path folder = c.save();
    test::write_text(c.file("config.json"), text);
    expect_refused(folder, {"config"});
  }
}

TEST_F(CheckpointTest, RopeScalingsThatCannotBe) {
  const auto build = [](const Json& scaling) {
    EditedCheckpoint c(kLlama);
    c.config()["rope_scaling"] = scaling;
    const fs::path path = c.save();
    try {
      Model::open(path, options());
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
      return e.message();
    }
    return std::string();
  };
  const std::string unknown = build({{"rope_type", "spiral"}, {"factor", 2}});
  EXPECT_NE(unknown.find("spiral"), std::string::npos) << unknown;
  EXPECT_NE(unknown.find("llama3"), std::string::npos) << unknown;
  for (const Json& scaling :
       {Json({{"type", "linear"}}), Json({{"type", "linear"}, {"factor", 0}}),
        Json({{"type", "linear"}, {"factor", "2"}}), Json({{"rope_type", 3}}), Json("linear"),
        Json({{"type", "longrope"}, {"short_factor", {1.0}}, {"long_factor", {1.0}}}),
        Json({{"type", "longrope"},
              {"short_factor", std::vector<double>(8, 0.0)},
              {"long_factor", std::vector<double>(8, 1.0)}}),
        Json({{"type", "llama3"}, {"factor", 8}}),
        Json({{"type", "llama3"},
              {"factor", 8},
              {"low_freq_factor", 1},
              {"high_freq_factor", 1},
              {"original_max_position_embeddings", -5}})})
    EXPECT_NE(build(scaling), "") << scaling;
}

TEST_F(CheckpointTest, TheChatTemplateThatIsMeant) {
  const auto chosen = [](const std::string& tokenizer_config, const std::string& jinja) {
    EditedCheckpoint c(kLlama);
    test::write_text(c.file("tokenizer_config.json"), tokenizer_config);
    if (!jinja.empty()) test::write_text(c.file("chat_template.jinja"), jinja);
    return open_checkpoint(c.save()).chat_template;
  };
  EXPECT_EQ(chosen(R"({"chat_template": "plain"})", ""), "plain");
  EXPECT_EQ(chosen(R"({"chat_template": "plain"})", "own file"), "own file");
  EXPECT_EQ(chosen(R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                                         {"name": "default", "template": "usual"}]})",
                   ""),
            "usual");
  EXPECT_EQ(chosen("{}", ""), "");
  for (const char* list : {R"({"chat_template": [{"name": "tool_use", "template": "tools"}]})",
                           R"({"chat_template": [{"name": 3, "template": "tools"}]})",
                           R"({"chat_template": [{"name": "default", "template": 4}]})",
                           R"({"chat_template": [7]})"}) {
    EditedCheckpoint c(kLlama);
    test::write_text(c.file("tokenizer_config.json"), list);
    expect_refused(c.save(), {"chat_template"});
  }
}

TEST_F(CheckpointTest, PlacesThatHoldNoModel) {
  const test::TemporaryFolder folder;
  expect_refused(folder.path(), {"config.json", "params.json"});
  test::write_text(folder.path() / "notes.txt", "hello");
  expect_refused(folder.path() / "notes.txt", {"notes.txt"});
  test::write_text(folder.path() / "params.json", R"({"dim": 64, "n_layers": 2, "n_heads": 4})");
  expect_refused(folder.path(), {"consolidated"});
  try {
    open_checkpoint(folder.path() / "absent");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kSystem);
  }
}

// The key of a cached engine: every file that is read counts, no other does.
TEST_F(CheckpointTest, IdentityIsOfTheFilesThatAreRead) {
  for (const fs::path& original :
       {kLlama, kFixtures / "models" / "llama_bf16_sharded", kFixtures / "meta" / "llama3_mp2"}) {
    SCOPED_TRACE(original);
    const test::TemporaryFolder copy;
    fs::copy(original, copy.path(),
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    const std::vector<fs::path> files = checkpoint_files(copy.path());
    const Checkpoint opened = open_checkpoint(copy.path());
    for (const SourceTensor& tensor : opened.source->tensors())
      EXPECT_NE(std::find(files.begin(), files.end(), tensor.file), files.end()) << tensor.file;
    const std::string before = checkpoint_identity(copy.path());
    EXPECT_EQ(opened.identity, before);
    for (const char* other : {"out.npy", "answers.json", "lora.safetensors", "README.md"})
      test::write_text(copy.path() / other, "x");
    EXPECT_EQ(checkpoint_identity(copy.path()), before);
    for (const fs::path& file : files) {
      const auto time = fs::last_write_time(file);
      fs::last_write_time(file, time + std::chrono::seconds(1));
      EXPECT_NE(checkpoint_identity(copy.path()), before) << file;
      fs::last_write_time(file, time);
    }
    for (const char* name : {"config.json", "params.json", "generation_config.json",
                             "tokenizer.json", "tokenizer_config.json"})
      EXPECT_EQ(std::count(files.begin(), files.end(), copy.path() / name),
                fs::exists(copy.path() / name) ? 1 : 0)
          << name;
    EXPECT_EQ(checkpoint_identity(copy.path()), before);
  }
}

TEST_F(CheckpointTest, MetaFoldersGiveTheSameLogits) {
  const fs::path same = kFixtures / "models" / "llama_bf16_sharded";
  const NpyArray frozen = read_npy(same / "logits.npy");
  for (const char* name : {"llama", "llama2_mp2", "llama3_mp2"}) {
    const auto model = Model::open(kFixtures / "meta" / name, options());
    for (const std::int64_t steps : {0, 16})
      EXPECT_LT(worst_difference(score(*model, all_tokens_of(same), steps), frozen.as<float>()),
                1e-4f)
          << name << " steps " << steps;
  }
  const test::TemporaryFolder lost;
  fs::copy(kFixtures / "meta" / "llama3_mp2", lost.path(),
           fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  fs::remove(lost.path() / "consolidated.00.pth");
  expect_refused(lost.path(), {"consolidated.00.pth"});
}

TEST_F(CheckpointTest, GgufFilesGiveTheFrozenLogits) {
  const fs::path folder = kFixtures / "gguf";
  const Json index = parse_json(read_file(folder / "index.json"), "index.json");
  for (const auto& [name, entry] : index.items()) {
    SCOPED_TRACE(name);
    std::vector<std::int32_t> tokens;
    if (entry.is_string()) {
      tokens = all_tokens_of(kFixtures / "models" / entry.get<std::string>());
    } else {
      tokens = entry.at("prompt").get<std::vector<std::int32_t>>();
      for (const std::int32_t id : entry.at("continuation").get<std::vector<std::int32_t>>())
        tokens.push_back(id);
    }
    const NpyArray frozen = read_npy(folder / (name + ".npy"));
    const fs::path file = folder / (name + ".gguf");
    const auto exact = Model::open(file, options());
    for (const std::int64_t steps : {0, 16})
      EXPECT_LT(worst_difference(score(*exact, tokens, steps), frozen.as<float>()), 1e-4f)
          << "steps " << steps;
    const auto native = Model::open(file, options(ComputeMode::kNative));
    EXPECT_GT(cosine(score(*native, tokens), frozen.as<float>()), 0.999);
  }
}

TEST_F(CheckpointTest, QuantisedBuildsStayClose) {
  const NpyArray frozen = read_npy(kLlama / "logits.npy");
  const std::vector<std::int32_t> tokens = all_tokens_of(kLlama);
  for (const auto& [quant, least] : std::vector<std::pair<std::string, double>>{
           {"bf16", 0.9997}, {"int8", 0.997}, {"fp8", 0.98}, {"q8_0", 0.997}}) {
    SCOPED_TRACE(quant);
    for (const ComputeMode mode : {ComputeMode::kF32, ComputeMode::kNative}) {
      OpenOptions o = options(mode);
      o.build.quant = quant;
      const auto model = Model::open(kLlama, o);
      EXPECT_GT(cosine(score(*model, tokens), frozen.as<float>()), least);
      const auto& formats = model->info().weight_formats;
      EXPECT_TRUE(std::any_of(formats.begin(), formats.end(), [&](const auto& f) {
        return f.first == quant;
      })) << "the engine holds the format that was asked for";
    }
  }
}

// Threads that convert and pack share the rows between them; the file is the same to the byte.
TEST_F(CheckpointTest, WorkersDoNotChangeAByte) {
  for (const char* quant : {"none", "bf16", "int8", "q4_0"}) {
    std::vector<std::string> files;
    for (const int workers : {1, 3}) {
      OpenOptions o = options(ComputeMode::kNative);
      o.build.quant = quant;
      o.build.workers = workers;
      const fs::path path = cache_.path() / "workers.ingot";
      const auto device = open_device("cpu", {.run = 2, .pack = workers});
      EngineWriter writer(path);
      build_engine_file(kLlama, *device, o, writer);
      files.push_back(read_file(path));
    }
    EXPECT_TRUE(files[0] == files[1]) << quant;
  }
}

TEST_F(CheckpointTest, WeightsThatNoFormatHoldsAreRefusedByAnyWorker) {
  EditedCheckpoint edited(kLlama);
  StoredTensor& t = edited.tensors.at("model.layers.0.mlp.up_proj.weight");
  std::vector<float> values = t.as_floats();
  values.back() = std::nanf("");
  t = StoredTensor::floats(t.shape, values);
  const fs::path folder = edited.save();
  for (const int workers : {1, 3}) {
    OpenOptions o = options(ComputeMode::kNative);
    o.build.quant = "int8";
    o.build.workers = workers;
    const auto device = open_device("cpu", {.run = 1, .pack = workers});
    const fs::path path = cache_.path() / "nan.ingot";
    try {
      EngineWriter writer(path);
      build_engine_file(folder, *device, o, writer);
      ADD_FAILURE() << workers;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kBadInput) << e.message();
    }
    EXPECT_FALSE(fs::exists(path));
  }
}

}  // namespace
}  // namespace ingot
