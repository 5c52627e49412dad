// What is damaged, absurd or refused by the system: one line that says so, the exit code of the
// command line's table, nothing half-written, no signal, no waiting for ever.
#include "base/file.h"
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/builder/edited_checkpoint.h"
#include "tests/builder/fake_hub.h"
#include "tests/cli/command.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ingot {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

const fs::path kFixtures = INGOT_FIXTURES;
const fs::path kModel = kFixtures / "models" / "llama";

class BadInputTest : public testing::Test {
 protected:
  CommandResult run(const std::vector<std::string>& arguments, CommandInput input = {}) {
    return work_.run(arguments, std::move(input));
  }
  // Fails with one line on standard error, and soon.
  std::string bad(int exit_code, const std::vector<std::string>& arguments,
                  CommandInput input = {}) {
    const auto start = std::chrono::steady_clock::now();
    const CommandResult r = run(arguments, std::move(input));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
    EXPECT_EQ(r.exit_code, exit_code) << testing::PrintToString(arguments) << "\n" << r.err;
    EXPECT_THAT(r.err, StartsWith("error: [")) << testing::PrintToString(arguments);
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    return r.err;
  }
  // A model that no command opens; building it leaves no file.
  void expect_no_model(const fs::path& model, const std::vector<std::string>& parts,
                       int exit_code = 3) {
    const fs::path out = work_ / "out.ingot";
    for (const std::string& message :
         {bad(exit_code, {"build", model, "-o", out}), bad(exit_code, {"run", model, "-p", "a"}),
          bad(exit_code, {"plan", model})})
      for (const std::string& part : parts) EXPECT_THAT(message, HasSubstr(part));
    EXPECT_EQ(files(), std::vector<std::string>()) << model;
  }
  // Below the work folder, but for the inputs that the test put into in/.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& e : fs::recursive_directory_iterator(work_.path()))
      if (e.is_regular_file() && e.path().parent_path().filename() != "in")
        names.push_back(e.path().filename());
    return names;
  }
  fs::path input(const std::string& name, const std::string& bytes) const {
    fs::create_directories(work_ / "in");
    return work_.write("in/" + name, bytes);
  }

  WorkFolder work_;
};

TEST_F(BadInputTest, DamagedSafetensors) {
  const std::string whole = read_file(kModel / "model.safetensors");
  test::EditedCheckpoint c(kModel);
  const fs::path folder = c.save();
  const auto damaged = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    test::write_text(c.file("model.safetensors"), bytes);
    expect_no_model(folder, parts);
  };
  damaged(whole.substr(0, whole.size() - 1), {"model.safetensors", "tensor"});
  damaged(whole.substr(0, whole.size() / 2), {"model.safetensors", "tensor"});
  damaged(whole.substr(0, 100), {"model.safetensors"});
  damaged("", {"model.safetensors"});
  std::string flipped = whole;
  flipped[20] = static_cast<char>(flipped[20] ^ 0x40);  // in the header
  damaged(flipped, {"safetensors"});
  fs::remove(c.file("model.safetensors"));
  expect_no_model(folder, {"safetensors"});
}

TEST_F(BadInputTest, DamagedGguf) {
  const std::string whole = read_file(kFixtures / "gguf" / "llama_q4_0.gguf");
  expect_no_model(input("half.gguf", whole.substr(0, whole.size() / 2)), {"half.gguf"});
  expect_no_model(input("empty.gguf", ""), {"empty.gguf"});
  std::string many = whole;  // of tensors
  std::memset(many.data() + 8, 0x1f, 8);
  expect_no_model(input("many.gguf", many), {"many.gguf"});
  for (const std::size_t at : {std::size_t{8}, std::size_t{16}}) {  // of tensors, of keys
    std::string claims = whole;
    const std::uint64_t count = std::uint64_t{1} << 61;
    std::memcpy(claims.data() + at, &count, sizeof count);
    CommandInput small;
    small.prefix = {"prlimit", "--data=100000000"};
    bad(3, {"inspect", input("claims.gguf", claims)}, small);
  }
  std::string version = whole;
  version[4] = 9;
  expect_no_model(input("version.gguf", version), {"version 9"});
}

// One flipped bit anywhere: refused by name, or, where it only changes a number, still a model; the
// command never ends by a signal or as a bug.
TEST_F(BadInputTest, FlippedBits) {
  const std::string gguf = read_file(kFixtures / "gguf" / "llama_q4_0.gguf");
  const std::string json = read_file(kModel / "tokenizer.json");
  test::EditedCheckpoint c(kModel);
  const fs::path folder = c.save();
  const auto expect_told = [&](const fs::path& model) {
    const CommandResult r = run({"tokenize", model}, {.standard_input = "Hello"});
    EXPECT_THAT(r.exit_code, testing::AnyOf(0, 3)) << r.err;
    if (r.exit_code == 3) {
      EXPECT_THAT(r.err, StartsWith("error: ["));
    }
  };
  std::uint32_t state = 7;
  for (int i = 0; i < 60; ++i) {
    state = state * 1664525 + 1013904223;
    std::string bytes = gguf;
    char& c1 = bytes[state % std::min<std::size_t>(gguf.size(), 20000)];  // metadata and table
    c1 = static_cast<char>(c1 ^ (1 << (state >> 28 & 7)));
    expect_told(input("flipped.gguf", bytes));
    std::string text = json;
    char& c2 = text[state % text.size()];
    c2 = static_cast<char>(c2 ^ (1 << (state >> 28 & 7)));
    test::write_text(c.file("tokenizer.json"), text);
    expect_told(folder);
  }
}

TEST_F(BadInputTest, DamagedTokenizers) {
  test::EditedCheckpoint c(kModel);
  const fs::path folder = c.save();
  const std::string whole = read_file(kModel / "tokenizer.json");
  for (const std::string& text :
       {whole.substr(0, whole.size() / 2), std::string(), std::string("[]"), std::string("{}"),
        std::string(R"({"model":{"type":"BPE","vocab":{"a":5000000000},"merges":[]}})"),
        std::string(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["x y"]}})"),
        std::string(100000, '[')}) {
    test::write_text(c.file("tokenizer.json"), text);
    expect_no_model(folder, {"token", folder.string()});
    bad(3, {"tokenize", folder}, {.standard_input = "Hello"});
  }
}

// A template that cannot be read is an error with its place where a chat is wanted, and only there.
TEST_F(BadInputTest, DamagedTemplates) {
  const std::string messages =
      input("messages.json", R"([{"role":"user","content":"Hi"}])").string();
  for (const auto& [source, part] : std::vector<std::pair<std::string, std::string>>{
           {"line\n{% for m in messages %}", "line 2"},
           {"{{ messages[0].content", "line 1"},
           {"{% frobnicate %}", "unknown statement 'frobnicate'"},
           {std::string(5000, '{') + "%", "[jinja"}}) {
    test::EditedCheckpoint c(kModel);
    const fs::path folder = c.save();
    test::write_text(c.file("chat_template.jinja"), source);
    EXPECT_THAT(bad(3, {"render", folder, messages}), HasSubstr(part));
    EXPECT_THAT(bad(3, {"run", folder, "--chat", "-p", "Hi", "--max-tokens", "2"}),
                HasSubstr(part));
    EXPECT_EQ(run({"run", folder, "-p", "Hi", "--max-tokens", "2"}).exit_code, 0);
    EXPECT_EQ(run({"tokenize", folder}, {.standard_input = "Hi"}).exit_code, 0);
  }
  // What the template itself refuses is the request's fault.
  test::EditedCheckpoint c(kModel);
  const fs::path folder = c.save();
  test::write_text(c.file("chat_template.jinja"), "{{ raise_exception('only one turn') }}");
  const CommandResult r = run({"render", folder, messages});
  EXPECT_EQ(r.exit_code, 1);
  EXPECT_EQ(r.err, "error: [chat.template] only one turn\n");
}

TEST_F(BadInputTest, CheckpointsThatDoNotAdd) {
  const auto refused = [&](const std::function<void(test::EditedCheckpoint&)>& edit,
                           const std::vector<std::string>& parts) {
    test::EditedCheckpoint c(kModel);
    edit(c);
    expect_no_model(c.save(), parts);
  };
  using Edited = test::EditedCheckpoint;
  refused([](Edited& c) { c.tensors.erase("model.norm.weight"); }, {"model.norm.weight"});
  refused(
      [](Edited& c) {
        std::swap(c.tensors["model.norm.weight"].shape, c.tensors["lm_head.weight"].shape);
        std::swap(c.tensors["model.norm.weight"].bytes, c.tensors["lm_head.weight"].bytes);
      },
      {"wanted"});
  refused([](Edited& c) { c.config()["architectures"] = {"FancyForCausalLM"}; },
          {"FancyForCausalLM", "LlamaForCausalLM"});
  refused([](Edited& c) { c.config()["num_hidden_layers"] = 1000000000000; },
          {"num_hidden_layers"});
  refused([](Edited& c) { c.config()["vocab_size"] = 1000000000; }, {"vocab_size"});
  for (const char* key : {"top_p", "temperature", "repetition_penalty"})
    refused(
        [&](Edited& c) {
          test::write_text(c.file("generation_config.json"), Json({{key, -1.5}}).dump());
        },
        {key, "generation_config.json"});
}

TEST_F(BadInputTest, PlacesThatAreNoModel) {
  fs::create_directories(work_ / "in" / "folder");
  ASSERT_EQ(::mkfifo((work_ / "in" / "pipe").c_str(), 0600), 0);
  for (const char* path : {"/dev/null", "/dev/zero"}) expect_no_model(path, {"regular file"});
  expect_no_model(work_ / "in" / "pipe", {"regular file"});
  expect_no_model(work_ / "in" / "folder", {"config.json"});
  expect_no_model(input("empty", ""), {"empty"});
  expect_no_model(work_ / "absent", {"absent"}, 6);
  expect_no_model("", {"no such file"}, 6);
}

// A mistyped path is told as such; nobody is asked for a model of that name.
TEST_F(BadInputTest, WhatIsPlainlyAPathNeverGoesToTheHub) {
  fs::create_directories(work_ / "in" / "models");
  const auto told = [&](const std::string& model) {
    return bad(6, {"tokenize", model},
               {.environment = {"HF_HUB_OFFLINE=1"}, .prefix = {"env", "-C", work_ / "in"}});
  };
  for (const char* path :
       {"org/x.gguf", "org/x.ingot", "org/config.json", "org/model.safetensors", "org/x.pth",
        "org/x.bin", "./org/name", "../org/name", "~/name", "/org/name", "models/name"})
    EXPECT_THAT(told(path), StartsWith("error: [model] " + std::string(path) + ": no such file"));
  for (const char* name : {"org/name", "org/name:x.gguf", "org/name@main:x/y.gguf"})
    EXPECT_THAT(told(name), StartsWith("error: [hub.offline] " + std::string(name)));
}

TEST_F(BadInputTest, AbsurdNumbers) {
  const auto usage = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", kModel, "-p", "a"};
    const std::string option = more.front();
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_THAT(bad(2, arguments), HasSubstr(option));
  };
  for (const char* count : {"--max-tokens", "--threads", "--max-batch", "--max-seq"})
    for (const char* value :
         {"0", "-1", "99999999999", "99999999999999999999999", "1.5", "1e3", "many", "2x"})
      usage({count, value});
  for (const char* value : {"-1", "18446744073709551616", "0.5", "x"}) usage({"--seed", value});
  for (const char* number :
       {"--temperature", "--top-p", "--top-p-decay", "--top-p-min", "--min-p", "--typical-p",
        "--repetition-penalty", "--presence-penalty", "--frequency-penalty"})
    for (const char* value : {"nan", "inf", "1e400", "-1e9", "warm"}) usage({number, value});
  usage({"--top-p", "0"});
  usage({"--top-p", "1.0001"});
  usage({"--temperature", "-1"});
  usage({"--repetition-penalty", "0"});
  usage({"--stop", ""});
  usage({"--bad-words", ""});
  usage({"--no-repeat-ngram-size", "257"});
  for (const char* value : {"5", "5:", "5:x", ":1", "x:1", "-1:1", "5:101", "5:nan", "5:1x"})
    usage({"--logit-bias", value});
  usage({"--min-tokens", "9", "--max-tokens", "3"});
  usage({"--threads", "100000"});
  for (const char* value : {"0", "nan", "-1G", "1e30G", "4X"}) usage({"--memory", value});
  for (const char* kind : {"fp4", "i8", "e4m3", "f32", "bool", ""})
    EXPECT_THAT(bad(2, {"run", kModel, "-p", "a", "--kv-cache", kind}), HasSubstr("kv_cache"));
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--prefill", "99999999999"},
                                             {"--prefill", "64"},
                                             {"--prefill", "63", "--decode", "1"},
                                             {"--prefill", "8", "--decode", "9223372036854775807"},
                                             {"--prefill", "8", "--batch", "99999999999"},
                                             {"--prefill", "8", "--repeat", "0"}}) {
    std::vector<std::string> arguments = {"bench", kModel};
    arguments.insert(arguments.end(), more.begin(), more.end());
    bad(2, arguments);
  }
  EXPECT_EQ(run({"run", kModel, "-p", "a", "--max-tokens", "2147483647"}).exit_code, 0);
}

TEST_F(BadInputTest, PromptsOfAnyBytesAndLength) {
  CommandInput bytes;
  for (int i = 1; i < 256; ++i) bytes.standard_input += static_cast<char>(i);
  bytes.standard_input.resize(40, '\xff');
  for (const char* chat : {"--ignore-eos", "--chat"}) {
    const CommandResult r = run({"run", kModel, chat, "--max-tokens", "3", "--json"}, bytes);
    ASSERT_EQ(r.exit_code, 0) << r.err;
    EXPECT_NO_THROW(parse_json(r.out, "standard output"));
  }
  CommandInput huge;
  huge.standard_input.assign(3 << 20, 'a');
  EXPECT_THAT(bad(1, {"run", kModel}, huge), HasSubstr("context holds 64"));
  EXPECT_THAT(bad(1, {"run", kModel, "--chat"}, huge), HasSubstr("context holds 64"));
}

TEST_F(BadInputTest, BatchLinesOfAnyKind) {
  const std::string lines =
      "\xff\xfe\n{\"prompt\":\"\xff\"}\n{\"prompt\":7}\n[1]\n{}\n\"x\"\n"
      R"({"prompt_token_ids":[]})"
      "\n"
      R"({"prompt_token_ids":[1.5]})"
      "\n"
      R"({"prompt_token_ids":[-1]})"
      "\n"
      R"({"prompt":"a","max_tokens":0})"
      "\n"
      R"({"prompt":"a","temperature":"hot"})"
      "\n"
      R"({"prompt":"a","response_format":{"type":5}})"
      "\n"
      R"({"prompt":"a","max_tokens":1e400})"
      "\n"
      R"({"messages":{"role":"user"}})"
      "\n"
      R"({"messages":[1,null]})"
      "\n"
      R"({"body":5})"
      "\n" +
      std::string(100000, '[') +
      "\n"
      R"({"prompt":"a","max_tokens":1})"
      "\n";
  const std::string out = work_ / "out.jsonl";
  const CommandResult r = run({"batch", kModel, "-i", input("in.jsonl", lines), "-o", out});
  EXPECT_EQ(r.exit_code, 1) << r.err;
  std::ifstream file(out);
  std::vector<Json> answers;
  for (std::string line; std::getline(file, line);) answers.push_back(parse_json(line, "a line"));
  ASSERT_EQ(answers.size(), 18U);
  for (std::size_t i = 0; i + 1 < answers.size(); ++i)
    EXPECT_TRUE(answers[i].contains("error")) << i << " " << answers[i];
  EXPECT_TRUE(answers.back().contains("text")) << answers.back();
}

// What is wrong with a line is told by its field, and what is right in it is not called unknown.
TEST_F(BadInputTest, BatchErrorsNameTheField) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"({"messages":[{"role":"user"}]})", "messages[0].content] is missing"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"assistant"}]})",
       "messages[1].content] is missing"},
      {R"({"messages":[{"role":"user","content":7}]})", "messages[0].content] wanted a text"},
      {R"({"messages":[{"content":"a"}]})", "messages[0].role] wanted a text"},
      {R"({"messages":["a"]})", "messages[0]] wanted a JSON object"},
      {R"({"messages":[]})", "messages] is empty"},
      {R"({"prompt":[-1]})", "prompt] -1: wanted a token id"},
      {R"({"prompt":[2147483648]})", "prompt] 2147483648: wanted a token id"},
      {R"({"prompt":[1.5]})", "prompt] 1.5: wanted a whole number"},
      {R"({"prompt":"a","max_tokens":"5"})", "max_tokens] \"5\": wanted a whole number"},
      {R"({"prompt":"a","model":5})", "model] wanted a text"},
      {R"({"messages":[{"role":"assistant","tool_calls":[]}]})", "messages[0].content] is missing"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})",
       "messages[0].tool_calls] the chat template"},
      {R"({"messages":[{"role":"user","content":"a","contnet":"b"}]})",
       "messages[0].contnet] the chat template"},
      {R"({"prompt":[[1],[2]]})", "prompt] 2 prompts; wanted one"},
      {R"({"prompt":[]})", "prompt] is empty"},
      {R"({"prompt":[[]]})", "prompt] is empty"},
      {R"({"prompt":"a","seed":-5})", "seed] -5: wanted a whole number, 0 to"},
      {R"({"prompt":"a","seed":0.5})", "seed] 0.5: wanted a whole number, 0 to"},
      {R"({"prompt":"a","repetition_penalty":1e-300})", "repetition_penalty 1e-300: wanted"},
      {R"({"prompt":"a","n":200})", "n] 200: wanted 1 to 128"},
      {R"({"prompt":"a","n":3,"best_of":2})", "best_of 2: wanted n, which is 3"},
      {R"({"prompt":"a","n":100})", "100 answers at once; the engine was built for"},
      {R"({"prompt":"a","beam_width":2,"top_k":5})", "top_k 5: wanted 0 with beams"},
      {R"({"prompt":"a","use_beam_search":true})", "use_beam_search] true: wanted beam_width"},
      {R"({"prompt":"a","prompt_logprobs":999999})", "prompt_logprobs 999999: wanted 0 to"},
      {R"({"prompt":"a","logit_bias":{"999999":1}})", "logit_bias: 999999 is outside"},
      {R"({"prompt":"a","bad_token_ids":[[-1]]})", "bad_token_ids] -1: wanted a token id"},
      {R"({"prompt":"a","stop_token_ids":[999999]})", "stop_token_ids: 999999 is outside"},
      {R"({"prompt":"a","typical_p":0})", "typical_p 0: wanted (0, 1]"},
      {R"({"prompt":"a","nn":2})", "nn] this Ingot does not know the field"},
      {R"({"prompt":"a","stream":"yes"})", "stream] wanted true or false"},
      {R"({"prompt":"a","stream":1})", "stream] wanted true or false"},
      {R"({"prompt":"a","add_generation_prompt":false})",
       "add_generation_prompt] belongs to a chat"},
      {R"({"prompt":"a","tools":[{}]})", "tools] belongs to a chat"},
      {R"({"prompt":"a","seed":1,"seed":2})", R"(the key "seed" comes twice)"},
      {R"({"messages":[{"role":"user","content":"a","content":"b"}]})", R"(key "content" comes)"},
      {R"({"messages":[{"role":"user","content":"a"}],"tools":[{}]})", "tools] the chat template"},
      {R"({"messages":[{"role":"user","content":"a"}],"documents":[{}]})",
       "documents] the chat template"},
      {R"({"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"think":true}})",
       "chat_template_kwargs.think] the chat template"},
      {R"({"url":"/v1/completions","body":{"messages":[{"role":"user","content":"a"}]}})",
       R"(batch.url] "/v1/completions": the body is a chat; wanted /v1/chat/completions)"},
      {R"({"url":"/v1/chat/completions","body":{"prompt":"a"}})", "the body is a completion"},
      {R"({"url":"/v1/embeddings","body":{"prompt":"a"}})",
       "batch.url] \"/v1/embeddings\": wanted"},
      {R"({"method":"GET","body":{"prompt":"a"}})", "batch.method] \"GET\": wanted \"POST\""},
      {R"({"priority":1,"body":{"prompt":"a"}})", "batch.priority] this Ingot does not know"},
      {"{\"prompt\"", ": parse error at column 10"}};
  std::string lines =
      R"({"id":1,"custom_id":"b","method":"POST","url":"/v1/completions","body":)"
      R"({"prompt":"a","max_tokens":1,"n":1,"best_of":null,"stream":true,"structured_outputs":null}})"
      "\n";
  for (const auto& [line, message] : wrong) lines += line + "\n";
  lines += R"({"id":"its own","prompt":"a","seed":1,"seed":2})";
  const std::string out = work_ / "out.jsonl";
  EXPECT_EQ(run({"batch", kModel, "-i", input("in.jsonl", lines), "-o", out}).exit_code, 1);
  std::ifstream file(out);
  std::vector<Json> answers;
  for (std::string line; std::getline(file, line);) answers.push_back(parse_json(line, "a line"));
  ASSERT_EQ(answers.size(), wrong.size() + 2);
  EXPECT_TRUE(answers.front().contains("text")) << answers.front();
  EXPECT_EQ(answers.back().at("id"), "its own");
  for (std::size_t i = 0; i < wrong.size(); ++i)
    EXPECT_THAT(answers[i + 1].at("error").at("message").get<std::string>(),
                HasSubstr(wrong[i].second));
}

// A limit on the size of files stands for a full disk; so does its signal, which would end the
// process.
TEST_F(BadInputTest, FullDisks) {
  CommandInput full;
  full.prefix = {"prlimit", "--fsize=100000"};
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"run", kModel, "-p", "a"},
           {"build", kModel, "-o", work_ / "out.ingot"},
           {"logits", kModel, "--tokens", "1,2", "-o", work_ / "out.npy"}})
    EXPECT_THAT(bad(6, arguments, full), HasSubstr("File too large"));
  EXPECT_EQ(files(), std::vector<std::string>());
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--help"},
           {"--version"},
           {"devices"},
           {"plan", kModel},
           {"inspect", kModel},
           {"render", kModel, input("m.json", R"([{"role":"user","content":"Hi"}])")}}) {
    CommandInput to;
    to.standard_output = "/dev/full";
    EXPECT_THAT(bad(6, arguments, to), HasSubstr("No space left"));
    CommandInput closed;  // | head -1
    closed.output_closed = true;
    EXPECT_THAT(bad(6, arguments, closed), HasSubstr("Broken pipe"));
  }
}

TEST_F(BadInputTest, StandardOutputStaysWhatItIs) {
  const std::string lines = input("in.jsonl", R"({"prompt":"a","max_tokens":1})");
  for (const char* to : {"-", "/dev/stdout"}) {
    const CommandResult r = run({"batch", kModel, "-i", lines, "-o", to});
    EXPECT_EQ(r.exit_code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("\"text\""));
    EXPECT_TRUE(fs::is_symlink("/dev/stdout"));
    EXPECT_THAT(bad(2, {"batch", kModel, "-i", lines, "-o", to, "--json"}), HasSubstr("--json"));
  }
  // Whose reader is gone ends with its next line, and not with the last.
  std::string many;
  for (int i = 0; i < 500; ++i)
    many += R"({"prompt":"a","max_tokens":1})"
            "\n";
  CommandInput closed;
  closed.output_closed = true;
  EXPECT_THAT(bad(6, {"batch", kModel, "-i", input("many.jsonl", many), "-o", "-"}, closed),
              testing::AllOf(HasSubstr("Broken pipe"), testing::Not(HasSubstr("500 finished"))));
  EXPECT_EQ(run({"build", kModel, "--json", "-o", "/dev/null"}).exit_code, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(BadInputTest, CachesThatCannotBeWritten) {
  const fs::path cache = work_ / "cache";
  fs::create_directories(cache / "engines");
  fs::permissions(cache / "engines", fs::perms::owner_read | fs::perms::owner_exec |
                                         fs::perms::others_read | fs::perms::others_exec);
  CommandInput nobody;  // root may write anywhere
  if (::geteuid() == 0) nobody.prefix = {"setpriv", "--reuid=65534", "--clear-groups"};
  const std::vector<std::string> arguments = {"run", kModel, "-p", "a", "--max-tokens", "1"};
  EXPECT_THAT(bad(6, arguments, nobody), HasSubstr("INGOT_CACHE"));
  EXPECT_EQ(files(), std::vector<std::string>());
  // With the engine in it, it need not be written.
  fs::permissions(cache / "engines", fs::perms::all);
  EXPECT_EQ(run(arguments).exit_code, 0);
  fs::permissions(cache / "engines", fs::perms::all & ~fs::perms::others_write);
  EXPECT_EQ(run(arguments, nobody).exit_code, 0);
}

TEST_F(BadInputTest, CtrlCStops) {
  auto start = std::chrono::steady_clock::now();
  CommandInput soon;
  soon.interrupt_when = [&] {
    return std::chrono::steady_clock::now() - start > std::chrono::seconds(1);
  };
  bad(130,
      {"bench", kModel, "--prefill", "8", "--decode", "8", "--repeat", "100000000", "--threads",
       "1"},
      soon);
  // While it waits for input.
  start = std::chrono::steady_clock::now();
  const fs::path pipe = work_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  soon.prefix = {"sh", "-c", R"(exec "$0" "$@" <> ')" + pipe.string() + "'"};
  bad(130, {"tokenize", kModel}, soon);
}

// What is finished when a batch is stopped is not lost, and not taken for the whole.
TEST_F(BadInputTest, AStoppedBatchKeepsWhatIsFinished) {
  const std::string line = R"({"prompt":"a","max_tokens":40,"ignore_eos":true})";
  std::string lines;
  constexpr int kLines = 50000;
  for (int i = 0; i < kLines; ++i) lines += line + "\n";
  const fs::path in = input("in.jsonl", lines), one = input("one.jsonl", line);
  const fs::path out = work_ / "in" / "out.jsonl", partial = work_ / "in" / "out.jsonl.partial";
  auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run({"batch", kModel, "-i", one, "-o", out}).exit_code, 0);
  const auto soon = 2 * (std::chrono::steady_clock::now() - start) + std::chrono::milliseconds(500);
  const std::string before = read_file(out);
  for (const auto& [signal, name] :
       {std::pair(SIGINT, "Ctrl-C"), std::pair(SIGTERM, "SIGTERM"), std::pair(SIGHUP, "SIGHUP")}) {
    CommandInput stopped;
    start = std::chrono::steady_clock::now();
    stopped.interrupt = signal;
    stopped.interrupt_when = [&] { return std::chrono::steady_clock::now() - start > soon; };
    const CommandResult r = run({"batch", kModel, "-i", in, "-o", out}, stopped);
    EXPECT_EQ(r.exit_code, 130) << r.err;
    EXPECT_THAT(r.err, HasSubstr(name));
    EXPECT_THAT(r.err, HasSubstr(partial.string()));
    EXPECT_EQ(read_file(out), before);
    std::ifstream file(partial);
    int answers = 0;
    for (std::string text; std::getline(file, text); ++answers)
      EXPECT_EQ(parse_json(text, "a line").at("token_ids").size(), 40U);
    EXPECT_GT(answers, 0);
    EXPECT_LT(answers, kLines);
    EXPECT_THAT(r.err, HasSubstr(fmt::format("{} of {} lines", answers, kLines)));
  }
  const std::string stale = read_file(partial);
  for (const bool killed : {true, false}) {
    std::ofstream(partial) << stale;
    CommandInput stopped;
    stopped.interrupt = killed ? SIGKILL : SIGCONT;
    stopped.interrupt_when = [&] {
      std::error_code error;
      const auto size = fs::file_size(partial, error);
      if (error || size == 0 || size >= stale.size()) return false;
      return killed || fs::remove(partial);
    };
    const CommandResult r = run({"batch", kModel, "-i", in, "-o", out}, stopped);
    EXPECT_EQ(r.exit_code, killed ? 128 + SIGKILL : 6) << r.err;
    EXPECT_EQ(fs::exists(partial), killed);
    EXPECT_EQ(r.err.find(partial.string() + ": removed") == r.err.npos, killed) << r.err;
    EXPECT_EQ(read_file(out), before);
  }
}

// A model by its hub name, over HTTPS, and then without the network.
TEST_F(BadInputTest, HubNames) {
  const test::TlsServer tls;
  test::FakeHub hub(&tls);
  hub.token = "hf_secret";
  for (const auto& e : fs::directory_iterator(kModel))
    if (e.is_regular_file()) hub.files[e.path().filename()] = read_file(e.path());
  CommandInput with;
  with.environment = {"HF_ENDPOINT=" + hub.endpoint(),
                      "HF_HOME=" + (work_ / "hf").string(),
                      "HF_TOKEN=hf_secret",
                      "HF_HUB_CACHE=",
                      "REQUESTS_CA_BUNDLE=",
                      "CURL_CA_BUNDLE=",
                      "SSL_CERT_FILE=" + input("ca.pem", tls.certificate()).string()};
  const std::vector<std::string> arguments = {"run",           "org/tiny", "-p",           "a",
                                              "--temperature", "0",        "--max-tokens", "4"};
  std::vector<std::string> local = arguments;
  local[1] = kModel;
  const CommandResult r = run(arguments, with);
  EXPECT_EQ(r.exit_code, 0) << r.err;
  EXPECT_EQ(r.out, run(local).out);
  const std::size_t before = hub.requests().size();
  CommandInput offline = with;
  offline.environment.emplace_back("HF_HUB_OFFLINE=1");
  EXPECT_EQ(run(arguments, offline).out, r.out);
  EXPECT_EQ(hub.requests().size(), before);
  EXPECT_THAT(bad(6, {"run", "org/other", "-p", "a"}, offline), HasSubstr("HF_HUB_OFFLINE"));
  EXPECT_THAT(bad(3, {"run", "org/other", "-p", "a"}, with), HasSubstr("not found"));
  CommandInput wrong = with;
  wrong.environment[2] = "HF_TOKEN=hf_wrong";
  EXPECT_THAT(bad(3, {"run", "org/tiny", "-p", "a"}, wrong), HasSubstr("token"));
  CommandInput stranger = with;
  stranger.environment.pop_back();
  EXPECT_THAT(bad(6, {"run", "org/tiny", "-p", "a"}, stranger), HasSubstr("SSL_CERT_FILE"));
}

}  // namespace
}  // namespace ingot
