// Templates of models on the hub and what people make of them; that those that are taken render the
// same was tried with transformers' Jinja settings.
#include "data/chatml_jinja.h"

#include <gtest/gtest.h>

namespace ng {
namespace {

TEST(ChatmlJinja, IsKnownInOtherWords) {
  const char* const kCases[] = {
      // OpenHermes, Yi, axolotl
      R"({% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %})"
      R"({% endif %}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + )"
      R"(message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %})"
      R"({{ '<|im_start|>assistant\n' }}{% endif %})",
      // trl's setup_chat_format
      R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + )"
      R"(message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %})"
      R"({{ '<|im_start|>assistant\n' }}{% endif %})",
      R"({%- for m in messages %}{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + )"
      R"('<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %})"
      R"({{- '<|im_start|>assistant\n' }}{%- endif %})",
      R"({% for m in messages %}{{ "<|im_start|>" + m.role + "\n" }}{{ m.content }}{{ "<|im_end|>)"
      "\n"
      R"(" }}{% endfor %})",
      "{% for message in messages -%}\n<|im_start|>{{ message.role }}\n{{ message.content "
      "}}<|im_end|>\n{% endfor %}\n{% if add_generation_prompt %}\n{{ '<|im_start|>assistant\\n' "
      "}}\n{%- endif %}\n",
      "{% for m in messages %}\n{{ '<|im_start|>' + m.role + '\\n' }}{% generation %}{{ m.content "
      "+ "
      "'<|im_end|>' }}{% endgeneration %}{{ '\\n' }}{% endfor %}"};
  for (const char* jinja : kCases) EXPECT_TRUE(is_chatml(jinja)) << jinja;
}

TEST(ChatmlJinja, AnythingElseIsAnotherTemplate) {
  const char* const kCases[] = {
      "", "{{ messages }}", "{%", "{% for m in messages %}", "<|im_start|>",
      // Qwen's and SmolLM's begin with a system message of their own
      R"({% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %})"
      R"({{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %})"
      R"({{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n'}}{% endfor %})",
      R"({{ bos_token }}{% for m in messages %})"
      R"({{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n'}}{% endfor %})",
      R"({% for m in messages %})"
      R"({{'<|im_start|>' + m['role'] + '\n' + m['content'] | trim + '<|im_end|>\n'}}{% endfor %})",
      R"({% for m in messages %})"
      R"({{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>'}}{% endfor %})",
      R"({% for m in messages %})"
      R"({{'<|im_start|>' + m['role'] + '\n ' + m['content'] + '<|im_end|>\n'}}{% endfor %})",
      R"({% for m in messages[1:] %})"
      R"({{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n'}}{% endfor %})",
      "{% for m in messages %} {{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' "
      "}}{% endfor %}",
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' "
      "}}\n{% endfor %}",
      R"({% for m in messages %})"
      R"({{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n'}}{% endfor %})"
      R"({% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}{% endif %})"};
  for (const char* jinja : kCases) EXPECT_FALSE(is_chatml(jinja)) << jinja;
}

}  // namespace
}  // namespace ng
