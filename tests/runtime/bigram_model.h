#pragma once

#include "compile/compile.h"
#include "device/device.h"
#include "plan/engine_info.h"
#include "runtime/engine_loop.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ingot::test {

// A language model whose next token depends on the last alone, as the test says: an embedding of
// unit vectors and a head with a one where the next token is. Run by the ops' references.
class BigramModel {
 public:
  static constexpr std::int64_t kVocab = 320;
  static constexpr std::int64_t kPageTokens = 4;

  struct Script {
    std::map<std::int32_t, std::int32_t> next;  // a token that is not here repeats itself
    std::set<std::int32_t> poisoned;            // after these every logit is NaN
    std::vector<std::int32_t> end_ids;
    std::int64_t max_seq = 64;
    std::int64_t max_batch = 2;
    std::int64_t kv_pages = 64;
    std::int64_t host_pages = 0;
    EngineLoop::Options loop{};
  };
  BigramModel(Script script, const Tokenizer* tokenizer);
  ~BigramModel();

  EngineLoop& loop() { return *loop_; }
  // Called before every step's first kernel; may throw.
  std::function<void()> before_step;

  // Steps until nothing is left to do; checks the books after each. The events of each request as
  // one, and that nothing came after its last.
  std::map<RequestId, OutputEvent> finish_all();

 private:
  class FaultyDevice;
  std::unique_ptr<FaultyDevice> device_;
  Compiled compiled_;
  EngineInfo info_;
  std::unique_ptr<Buffer> weights_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<EngineLoop> loop_;
};

}  // namespace ingot::test
