#pragma once

#include "base/json.h"
#include "base/result.h"
#include "text/prompt_span.h"

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ingot {

namespace jinja {
struct Program;
struct Limits;
}  // namespace jinja

struct RenderedChat {
  std::string text;
  // Bytes that came from the request (messages, tools, documents, variables) and not from the
  // template; sorted, not empty, not touching. A tokenizer that lets no special token match where
  // it overlaps one of these makes it impossible for a message to forge a control token; matching
  // ordinary tokens must go on across their borders, else the ids differ from the reference.
  //
  // Followed exactly: output, + and ~, join, slices, indexing, iteration, strip/trim, split,
  // replace, case changes, indent, format and %, tojson, macros, set and filter blocks. Where a
  // value is escaped (repr, tojson, HTML) what stands for a marked character is marked as well.
  // Not marked: the value of a message's `role`, and strings among the variables, when they hold
  // nothing but letters, digits, '_', '-' and '.': templates build tokens from them ("<|" + role +
  // "|>"), and alone they can forge nothing. Numbers and booleans are never marked.
  std::vector<PromptSpan> from_request;
};

// What one render gets. Pointers may be null; they are not kept.
struct ChatInput {
  const OrderedJson* messages = nullptr;   // array of objects with a `role`
  const OrderedJson* tools = nullptr;      // array; null or absent: the template sees none
  const OrderedJson* documents = nullptr;  // array
  const OrderedJson* variables = nullptr;  // object: chat_template_kwargs, enable_thinking, ...
  bool add_generation_prompt = true;
  std::optional<std::time_t> now;  // strftime_now's clock; the system's when absent
};

struct ChatTemplateOptions {
  // Visible to the template by these names: {"bos_token", "<s>"}, ...
  std::vector<std::pair<std::string, std::string>> special_tokens;
};

// Stands before the template's own message; a server passes on what follows it.
inline constexpr std::string_view kTemplateRefusal = "[chat.template] ";

// A model's chat template: jinja2 as transformers sets it up (trim_blocks, lstrip_blocks, loop
// controls, generation tags, its tojson, strftime_now and raise_exception).
class ChatTemplate {
 public:
  // Throws Error{kBadInput} naming line and column when the source cannot be read. A template that
  // can be read never fails here, whatever it does when it runs.
  static ChatTemplate parse(std::string_view source, ChatTemplateOptions options = {});

  // Errors: kRequest with kTemplateRefusal and the template's own message when it calls
  // raise_exception, kRequest when a message has content this template cannot show; kBadInput with
  // line and column for a template that fails. Thread-safe.
  //
  // Messages are put into the shape the template understands: content that is a string becomes
  // [{type: text, text}] and back (texts joined by a newline), by role, as found by trial renders
  // in parse(). As in transformers, members that are null are left out and reasoning_content is
  // also seen as thinking.
  Result<RenderedChat> render(const ChatInput& input) const;

  // Whether the template mentions a variable ("tools", "enable_thinking", "bos_token").
  bool mentions(std::string_view variable) const;
  // Whether a member of a message could reach the prompt: the template mentions it, or shows whole
  // objects.
  bool may_read(std::string_view member) const;
  // Of what the input gives, the name of the first that the template does not mention and so would
  // drop: "tools", "documents" or one of the variables; "" when it takes all.
  std::string unused(const ChatInput& input) const;

 private:
  ChatTemplate() = default;
  // Which shapes of `content` reach the prompt. Both true when trials say nothing.
  struct Accepts {
    bool text = true;
    bool parts = true;
  };
  enum Role { kSystem, kUser, kAssistant, kTool, kRoles };

  Result<RenderedChat> render_messages(const ChatInput& input, const jinja::Limits& limits) const;
  void find_content_shapes();
  Accepts try_shapes(Role role) const;
  bool shows(Role role, bool parts) const;
  OrderedJson trial(Role role, bool parts) const;
  OrderedJson shaped(const OrderedJson& message) const;
  const Accepts& accepts(std::string_view role) const;

  std::shared_ptr<const jinja::Program> program_;
  std::string source_;
  ChatTemplateOptions options_;
  Accepts accepts_[kRoles];
};

// A template for the few chat families whose checkpoints ship none: chatglm, chatglm2, chatglm3,
// internlm, internlm2, qwen (the first), baichuan, baichuan2, falcon, llama2. An explicit fallback
// that the caller chooses from the checkpoint's metadata and reports; nothing for other names.
std::optional<std::string_view> chat_template_for_family(std::string_view family);

}  // namespace ingot
