#include "data/qwen_template.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/error.h"

namespace ng {
namespace {

constexpr std::string_view kBegin = "<|im_start|>", kClosing = "<|im_end|>";
constexpr std::string_view kOwnSystem =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
constexpr std::string_view kBeforeTools =
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are "
    "provided with function signatures within <tools></tools> XML tags:\n<tools>";
constexpr std::string_view kAfterTools =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
    "\"arguments\": <args-json-object>}\n</tool_call>";
constexpr std::string_view kThinking = "<think>", kThought = "</think>";

std::string_view without_feeds_before(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text;
}

std::string_view without_feeds_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

/// What the assistant thought and what it said.
struct Answer {
  std::string_view reasoning, content;
};

// Without a key of its own, reasoning is what stands in <think> before the content.
Answer answer_of(const Message& message) {
  const std::string_view content = message.content;
  if (message.reasoning) return {*message.reasoning, content};
  const size_t end = content.find(kThought);
  if (end == std::string_view::npos) return {"", content};
  std::string_view reasoning = without_feeds_behind(content.substr(0, end));
  if (const size_t begin = reasoning.rfind(kThinking); begin != std::string_view::npos)
    reasoning.remove_prefix(begin + kThinking.size());
  return {without_feeds_before(reasoning),
          without_feeds_before(content.substr(content.rfind(kThought) + kThought.size()))};
}

/// A chat on its way to text.
class QwenChat {
 public:
  QwenChat(ChatTemplate format, const Chat& chat)
      : format_(format), chat_(chat), question_(last_question()) {}

  Document rendered(bool generation_prompt) {
    add_system();
    for (size_t i = is_system(0) ? 1 : 0; i < chat_.messages.size(); ++i) add(i);
    if (generation_prompt) open("assistant");
    return std::move(document_);
  }

 private:
  [[nodiscard]] bool is_role(size_t i, std::string_view role) const {
    return i < chat_.messages.size() && chat_.messages[i].role == role;
  }
  [[nodiscard]] bool is_system(size_t i) const { return is_role(i, "system"); }

  /// What a message says begins here.
  void open(std::string_view role) {
    ((document_.text += kBegin) += role) += '\n';
    first_ = document_.text.size();
  }
  void close(bool is_target) {
    document_.text += kClosing;
    end(is_target);
    document_.text += '\n';
  }
  void end(bool is_target) {
    if (is_target) document_.targets.push_back({first_, document_.text.size()});
  }

  void add_system() {
    const bool has_own = is_system(0), is_shown = has_own || format_ == ChatTemplate::qwen2_5;
    if (!is_shown && chat_.tools.empty()) return;
    open("system");
    if (is_shown) document_.text += has_own ? chat_.messages[0].content : kOwnSystem;
    if (!chat_.tools.empty()) {
      (document_.text += is_shown ? "\n\n" : "") += kBeforeTools;
      for (const std::string& tool : chat_.tools) (document_.text += '\n') += tool;
      document_.text += kAfterTools;
    }
    close(has_own && chat_.messages[0].is_target());
  }

  void add(size_t i) {
    const Message& message = chat_.messages[i];
    if (message.role == "tool") return add_response(i);
    open(message.role);
    if (message.role == "assistant")
      add_answer(i);
    else
      document_.text += message.content;
    close(message.is_target());
  }

  // Those that follow each other are one message of the user.
  void add_response(size_t i) {
    std::string& text = document_.text;
    if (!is_role(i - 1, "tool")) (text += kBegin) += "user";
    text += "\n<tool_response>\n";
    first_ = text.size();
    (text += chat_.messages[i].content) += "\n</tool_response>";
    const bool is_target = chat_.messages[i].is_target();
    if (is_role(i + 1, "tool"))
      end(is_target);
    else
      close(is_target);
  }

  void add_answer(size_t i) {
    const Message& message = chat_.messages[i];
    const bool thinks = format_ == ChatTemplate::qwen3;
    const Answer answer = thinks ? answer_of(message) : Answer{"", message.content};
    const bool is_last = i + 1 == chat_.messages.size();
    std::string& text = document_.text;
    if (thinks && i > question_ && (is_last || !answer.reasoning.empty())) {
      (text += kThinking) += '\n';
      text += without_feeds_behind(without_feeds_before(answer.reasoning));
      ((text += '\n') += kThought) += "\n\n";
      text += without_feeds_before(answer.content);
    } else {
      text += answer.content;
    }
    add_calls(message, !answer.content.empty());
  }

  void add_calls(const Message& message, bool follows) {
    std::string& text = document_.text;
    for (const ToolCall& call : message.calls) {
      if (follows) text += '\n';
      follows = true;
      ((text += "<tool_call>\n{\"name\": \"") += call.name) += "\", \"arguments\": ";
      (text += call.arguments) += "}\n</tool_call>";
    }
  }

  /// The last message of the user that is no tool's, else the last of all.
  [[nodiscard]] size_t last_question() const {
    for (size_t i = chat_.messages.size(); i-- > 0;) {
      const std::string_view content = chat_.messages[i].content;
      if (is_role(i, "user") &&
          !(content.starts_with("<tool_response>") && content.ends_with("</tool_response>")))
        return i;
    }
    return chat_.messages.size() - 1;
  }

  ChatTemplate format_;
  const Chat& chat_;
  size_t question_;
  Document document_{.text = "", .targets = {}, .kind = DocumentKind::chat};
  size_t first_ = 0;  ///< byte of the message's content
};

// Written so that they can stand in a tokenizer_config.json. `shown` is the system's message.
constexpr std::string_view kShown25 =
    R"jinja({%- set shown = messages[0]['content'] if messages[0]['role'] == 'system' else )jinja"
    R"jinja('You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' %})jinja";
constexpr std::string_view kShown3 =
    R"jinja({%- set shown = messages[0]['content'] if messages[0]['role'] == 'system' )jinja"
    R"jinja(else none %}{%- set ns = namespace(question=messages | length - 1, )jinja"
    R"jinja(found=false) %})jinja"
    R"jinja({%- for m in messages[::-1] %}{%- if not ns.found and m['role'] == 'user' )jinja"
    R"jinja(and m['content'] is string and not (m['content'].startswith('<tool_response>') )jinja"
    R"jinja(and m['content'].endswith('</tool_response>')) %}{%- set ns.found = true %})jinja"
    R"jinja({%- set ns.question = messages | length - 1 - loop.index0 %})jinja"
    R"jinja({%- endif %}{%- endfor %})jinja";
constexpr std::string_view kJinjaSystem =
    R"jinja({%- if tools %}{{- '<|im_start|>system\n' }})jinja"
    R"jinja({%- if shown is not none %}{{- shown + '\n\n' }}{%- endif %}{{- '# Tools\n\n)jinja"
    R"jinja(You may call one or more functions to assist with the user query.\n\nYou are )jinja"
    R"jinja(provided with function signatures within <tools></tools> XML tags:\n<tools>' }})jinja"
    R"jinja({%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %})jinja"
    R"jinja({{- '\n</tools>\n\nFor each function call, return a json object with function )jinja"
    R"jinja(name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n)jinja"
    R"jinja({"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>)jinja"
    R"jinja(<|im_end|>\n' }}{%- elif shown is not none %})jinja"
    R"jinja({{- '<|im_start|>system\n' + shown + '<|im_end|>\n' }}{%- endif %})jinja";
constexpr std::string_view kJinjaMessages =
    R"jinja({%- for m in messages %})jinja"
    R"jinja({%- if m['role'] == 'user' or (m['role'] == 'system' and not loop.first) %})jinja"
    R"jinja({{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }})jinja"
    R"jinja({%- elif m['role'] == 'assistant' %}{%- set content = m['content'] or '' %})jinja";
constexpr std::string_view kSaid25 = R"jinja({%- set said = content %})jinja";
constexpr std::string_view kSaid3 =
    R"jinja({%- set thought = '' %}{%- if m['reasoning_content'] is string %})jinja"
    R"jinja({%- set thought = m['reasoning_content'] %}{%- elif '</think>' in content %})jinja"
    R"jinja({%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1])jinja"
    R"jinja(.lstrip('\n') %}{%- set content = content.split('</think>')[-1].lstrip('\n') %})jinja"
    R"jinja({%- endif %}{%- if loop.index0 > ns.question and (loop.last or thought) %})jinja"
    R"jinja({%- set said = '<think>\n' + thought.strip('\n') + '\n</think>\n\n' )jinja"
    R"jinja(+ content.lstrip('\n') %}{%- else %}{%- set said = content %}{%- endif %})jinja";
constexpr std::string_view kJinjaAnswer =
    R"jinja({{- '<|im_start|>assistant\n' }}{% generation %}{{- said }})jinja"
    R"jinja({%- for call in m['tool_calls'] or [] %})jinja"
    R"jinja({%- if content or not loop.first %}{{- '\n' }}{%- endif %})jinja"
    R"jinja({%- set f = call['function'] or call %})jinja"
    R"jinja({{- '<tool_call>\n{"name": "' + f['name'] + '", "arguments": ' }})jinja"
    R"jinja({%- if f['arguments'] is string %}{{- f['arguments'] }}{%- else %})jinja"
    R"jinja({{- f['arguments'] | tojson }}{%- endif %}{{- '}\n</tool_call>' }}{%- endfor %})jinja"
    R"jinja({{- '<|im_end|>' }}{% endgeneration %}{{- '\n' }})jinja";
constexpr std::string_view kJinjaEnd =
    R"jinja({%- elif m['role'] == 'tool' %})jinja"
    R"jinja({%- if loop.first or messages[loop.index0 - 1]['role'] != 'tool' %})jinja"
    R"jinja({{- '<|im_start|>user' }}{%- endif %})jinja"
    R"jinja({{- '\n<tool_response>\n' + m['content'] + '\n</tool_response>' }})jinja"
    R"jinja({%- if loop.last or messages[loop.index0 + 1]['role'] != 'tool' %})jinja"
    R"jinja({{- '<|im_end|>\n' }}{%- endif %}{%- endif %}{%- endfor %})jinja"
    R"jinja({%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})jinja";

std::string joined(std::initializer_list<std::string_view> pieces) {
  std::string text;
  for (const std::string_view piece : pieces) text += piece;
  return text;
}

}  // namespace

bool is_qwen(ChatTemplate format) {
  return format == ChatTemplate::qwen2_5 || format == ChatTemplate::qwen3;
}

Document render_qwen(ChatTemplate format, const Chat& chat, bool generation_prompt) {
  NG_CHECK(is_qwen(format));
  return QwenChat(format, chat).rendered(generation_prompt);
}

std::string_view qwen_jinja(ChatTemplate format) {
  NG_CHECK(is_qwen(format));
  static const std::string k25 =
      joined({kShown25, kJinjaSystem, kJinjaMessages, kSaid25, kJinjaAnswer, kJinjaEnd});
  static const std::string k3 =
      joined({kShown3, kJinjaSystem, kJinjaMessages, kSaid3, kJinjaAnswer, kJinjaEnd});
  return format == ChatTemplate::qwen3 ? k3 : k25;
}

}  // namespace ng
