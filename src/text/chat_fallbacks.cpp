#include "text/chat_template.h"

// Prompts of chat models that were published without a template. Each is what the model's own
// released code builds; nothing here is used unless the caller asks for the family by name.
namespace ingot {

namespace {

struct Fallback {
  std::string_view family;
  std::string_view source;
};

// "[Round i]\n问：Q\n答：A"; a single question goes in alone.
constexpr std::string_view kChatGlm =
    R"({%- if messages|length == 1 -%}{{ messages[0].content }}{%- else -%}
{%- set ns = namespace(round=0) -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{{ '[Round ' ~ ns.round ~ ']\n问：' ~ m.content ~ '\n答：' }}
{%- set ns.round = ns.round + 1 -%}
{%- elif m.role == 'assistant' -%}{{ m.content ~ '\n' }}
{%- else -%}{{ raise_exception('This model knows only user and assistant messages') }}
{%- endif -%}
{%- endfor -%}{%- endif -%})";

constexpr std::string_view kChatGlm2 =
    R"({%- set ns = namespace(round=1) -%}
{%- for m in messages -%}
{%- if m.role == 'user' -%}
{{ '[Round ' ~ ns.round ~ ']\n\n问：' ~ m.content ~ '\n\n答：' }}
{%- set ns.round = ns.round + 1 -%}
{%- elif m.role == 'assistant' -%}{{ m.content ~ '\n\n' }}
{%- else -%}{{ raise_exception('This model knows only user and assistant messages') }}
{%- endif -%}
{%- endfor -%})";

constexpr std::string_view kChatGlm3 =
    R"({{- '[gMASK]sop' -}}
{%- for m in messages -%}{{ '<|' ~ m.role ~ '|>\n ' ~ m.content }}{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%})";

constexpr std::string_view kInternLm =
    R"({%- for m in messages -%}
{%- if m.role == 'user' -%}{{ '<|User|>:' ~ m.content ~ '<eoh>\n' }}
{%- elif m.role == 'assistant' -%}{{ '<|Bot|>:' ~ m.content ~ '<eoa>\n' }}
{%- else -%}{{ raise_exception('This model knows only user and assistant messages') }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|Bot|>:' }}{%- endif -%})";

constexpr std::string_view kChatMl =
    R"({%- for m in messages -%}
{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%})";

constexpr std::string_view kQwen =
    R"({%- if messages[0].role != 'system' -%}
{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{%- endif -%}
{%- for m in messages -%}
{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%})";

constexpr std::string_view kBaichuan =
    R"({%- for m in messages -%}
{%- if m.role == 'user' -%}{{ '<reserved_102>' ~ m.content }}
{%- elif m.role == 'assistant' -%}{{ '<reserved_103>' ~ m.content }}
{%- else -%}{{ m.content }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<reserved_103>' }}{%- endif -%})";

constexpr std::string_view kBaichuan2 =
    R"({%- for m in messages -%}
{%- if m.role == 'user' -%}{{ '<reserved_106>' ~ m.content }}
{%- elif m.role == 'assistant' -%}{{ '<reserved_107>' ~ m.content }}
{%- else -%}{{ m.content }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<reserved_107>' }}{%- endif -%})";

constexpr std::string_view kFalcon =
    R"({%- for m in messages -%}
{%- if not loop.first -%}{{ '\n\n' }}{%- endif -%}
{%- if m.role == 'system' -%}{{ m.content }}
{%- else -%}{{ ('User' if m.role == 'user' else 'Assistant') ~ ': ' ~ m.content }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '\n\nAssistant:' }}{%- endif -%})";

constexpr std::string_view kLlama2 =
    R"({%- set ns = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}
{%- set ns.system = '<<SYS>>\n' ~ m.content ~ '\n<</SYS>>\n\n' -%}
{%- elif m.role == 'user' -%}
{{ bos_token ~ '[INST] ' ~ ns.system ~ m.content|trim ~ ' [/INST]' }}{%- set ns.system = '' -%}
{%- else -%}{{ ' ' ~ m.content|trim ~ ' ' ~ eos_token }}
{%- endif -%}
{%- endfor -%})";

constexpr Fallback kFallbacks[] = {
    {"chatglm", kChatGlm},   {"chatglm2", kChatGlm2},   {"chatglm3", kChatGlm3},
    {"internlm", kInternLm}, {"internlm2", kChatMl},    {"qwen", kQwen},
    {"baichuan", kBaichuan}, {"baichuan2", kBaichuan2}, {"falcon", kFalcon},
    {"llama2", kLlama2},
};

}  // namespace

std::optional<std::string_view> chat_template_for_family(std::string_view family) {
  for (const Fallback& fallback : kFallbacks)
    if (fallback.family == family) return fallback.source;
  return std::nullopt;
}

}  // namespace ingot
