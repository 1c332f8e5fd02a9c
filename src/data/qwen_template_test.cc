// Tools, calls and reasoning in Qwen's templates: as transformers renders the models' own, and what
// is refused.
#include "data/qwen_template.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "data/jsonl.h"
#include "data/python_json.h"

namespace ng {
namespace {

const std::string kFolder = NG_SOURCE_DIR "/tests/golden/chat/";

DocumentRules rules_of(const std::string& name, bool prompt = false) {
  return {.chat = *find_chat_template(name), .generation_prompt = prompt, .ignored_keys = {"only"}};
}

TEST(QwenTemplates, ChatsAreThoseOfTheModelsOwn) {
  std::vector<std::string> lines;
  std::istringstream chats(read_file(kFolder + "qwen.jsonl", 1 << 20));
  for (std::string line; std::getline(chats, line);) lines.push_back(line);
  int compared = 0;
  for (const Json& want : read_json_file(kFolder + "qwen_expected.json", 1 << 20)) {
    const std::string name = want["template"];
    const Document document = read_document(lines.at(want["line"].get<size_t>()),
                                            rules_of(name, want["prompt"].get<bool>()), "", "");
    Json targets = Json::array();
    for (const TextSpan& span : document.targets)
      targets.push_back(Json::array({span.first, span.last}));
    EXPECT_EQ(document.text, want["text"].get<std::string>()) << name << ' ' << want["line"];
    EXPECT_EQ(targets, want["targets"]) << name << ' ' << want["line"];
    EXPECT_EQ(document.kind, DocumentKind::chat);
    ++compared;
  }
  EXPECT_EQ(compared, 36);
}

std::string rendered(const std::string& line, const std::string& name) {
  try {
    return read_document(line, rules_of(name), "", "t.jsonl:1").text;
  } catch (const Error& error) {
    return error.what();
  }
}

/// An assistant's message with `more` in it, behind a question.
std::string answer(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", )" + more + "}]}";
}

bool ends_with(const std::string& text, const std::string& end) { return text.ends_with(end); }

// OpenAI's arguments are text; Qwen2.5's template would quote it a second time.
TEST(QwenTemplates, ArgumentsMayBeJsonInAText) {
  const std::string line = answer(
      R"("tool_calls": [{"function": {"name": "f", "arguments": "{\"b\":1,\"a\":[2.50]}"}}])");
  EXPECT_PRED2(ends_with, rendered(line, "qwen2.5"),
               "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": [2.5]}}\n"
               "</tool_call><|im_end|>\n");
  EXPECT_PRED2(ends_with, rendered(line, "qwen3"),
               "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\":1,\"a\":[2.50]}}\n"
               "</tool_call><|im_end|>\n");
}

TEST(QwenTemplates, ShareGptsCallsAndToolsAreTheSame) {
  const std::string tools = R"([{"name": "f", "description": "d"}])";
  const std::string share_gpt =
      R"({"tools": "[{\"name\": \"f\", \"description\": \"d\"}]", "conversations": [)"
      R"({"from": "human", "value": "q"},)"
      R"({"from": "function_call", "value": )"
      R"("{\"name\": \"f\", \"arguments\": {\"y\": 1, \"x\": 2}}"},)"
      R"({"from": "observation", "value": "r"}, {"from": "gpt", "value": "a"}]})";
  const std::string open_ai =
      R"({"tools": )" + tools +
      R"(, "messages": [{"role": "user", "content": "q"},)"
      R"({"role": "assistant", "tool_calls": )"
      R"([{"function": {"name": "f", "arguments": {"y": 1, "x": 2}}}]},)"
      R"({"role": "tool", "content": "r"}, {"role": "assistant", "content": "a"}]})";
  for (const char* name : {"qwen2.5", "qwen3"}) {
    EXPECT_EQ(rendered(share_gpt, name), rendered(open_ai, name));
    EXPECT_NE(rendered(open_ai, name).find("{\"y\": 1, \"x\": 2}"), std::string::npos);
  }
}

TEST(QwenTemplates, WhatIsWrongIsNamed) {
  const auto says = [](const std::string& line, const std::string& begin,
                       const char* name = "qwen2.5") {
    const std::string found = rendered(line, name);
    EXPECT_TRUE(found.starts_with("t.jsonl:1: " + begin)) << line << "\n" << found;
  };
  const std::string call = "messages[1].tool_calls[0].";
  says(answer(R"("content": null)"), "messages[1].content: missing");
  says(answer(R"("content": "", "tool_calls": 5)"), "messages[1].tool_calls: 5 is not an object");
  says(answer(R"("tool_calls": [{"arguments": {}}])"), call + "name: missing");
  says(answer(R"("tool_calls": [{"name": "f"}])"), call + "arguments: missing");
  says(answer(R"("tool_calls": [{"name": "f", "arguments": "{"}])"),
       call + "arguments: \"{\": an object, or JSON of one as a text");
  says(answer(R"("tool_calls": [{"name": "f", "arguments": [1]}])"),
       call + "arguments: [1]: an object, or JSON of one as a text");
  says(answer(R"("tool_calls": [{"type": "code", "name": "f", "arguments": {}}])"),
       call + "type: \"code\": \"function\"");
  says(answer(R"("tool_calls": [{"function": {"name": "f", "arguments": {}, "strict": true}}])"),
       call + "function.strict: true, a key that is not read here: name, arguments, or ");
  says(answer(R"("tool_calls": [{"name": "g", "function": {"name": "f", "arguments": {}}}])"),
       call + "name: beside function: ");
  says(
      answer(R"("content": "a", "reasoning_content": "r")"),
      "messages[1].reasoning_content: \"r\", for which qwen2.5 has no place: data.template: qwen3");
  says(R"({"messages": [{"role": "user", "content": "q", "tool_calls": [{"name": "f"}]}]})",
       "messages[0].tool_calls: calls of the user: calls of the assistant");
  says(R"({"messages": [{"role": "user", "content": "q", "reasoning_content": "r"}]})",
       "messages[0].reasoning_content: of the user: that of the assistant", "qwen3");
  says(R"({"messages": [{"role": "developer", "content": "d"}]})",
       "messages[0].role: \"developer\": \"system\": ");
  says(R"({"messages": [{"role": "user", "content": "q", "name": "n"}]})",
       "messages[0].name: \"n\", a key that is not read here: ");
  says(R"({"tools": 5, "messages": [{"role": "user", "content": "q"}]})",
       "tools: 5: a list of objects");
  says(R"({"tools": ["f"], "messages": [{"role": "user", "content": "q"}]})",
       "tools: [\"f\"]: a list of objects");
  says(R"({"tools": "[", "messages": [{"role": "user", "content": "q"}]})",
       "tools: not valid JSON: ");
  says(R"({"conversations": [{"from": "function_call", "value": "f x"}]})",
       "conversations[0].value: not valid JSON: ");
}

TEST(QwenTemplates, OthersMessagesMayBeTargets) {
  const auto target = [](const std::string& line) {
    const Document document = read_document(line, rules_of("qwen3"), "", "");
    EXPECT_EQ(document.targets.size(), 1u);
    const TextSpan span = document.targets.at(0);
    return document.text.substr(span.first, span.last - span.first);
  };
  EXPECT_EQ(target(R"({"messages": [{"role": "system", "content": "s", "train": true}]})"),
            "s<|im_end|>");
  EXPECT_EQ(target(R"({"messages": [{"role": "tool", "content": "t", "train": true}]})"),
            "t\n</tool_response><|im_end|>");
  EXPECT_EQ(target(R"({"messages": [{"role": "tool", "content": "t", "train": true},)"
                   R"({"role": "tool", "content": "u"}]})"),
            "t\n</tool_response>");
}

// As Python 3.11 prints json.dumps(json.loads(text), ensure_ascii=False).
TEST(PythonJson, IsWhatPythonWrites) {
  const auto python = [](const char* text) { return python_json(OrderedJson::parse(text)); };
  EXPECT_EQ(python(R"({"b":[1,2],"a":{}})"), R"({"b": [1, 2], "a": {}})");
  EXPECT_EQ(
      python(R"([1.0,2.50,-0.5,1e16,1e15,1e-5,0.0001,1E22,123456789.125,-0.0])"),
      "[1.0, 2.5, -0.5, 1e+16, 1000000000000000.0, 1e-05, 0.0001, 1e+22, 123456789.125, -0.0]");
  EXPECT_EQ(python(R"(["é\u00e9\u0001\u001f\u007f\"\\\/\b\f\n\r\t\ud83d\ude00"])"),
            "[\"éé\\u0001\\u001f\x7f\\\"\\\\/\\b\\f\\n\\r\\t😀\"]");
  EXPECT_EQ(python(R"([true,false,null,-7,18446744073709551615,[],""])"),
            "[true, false, null, -7, 18446744073709551615, [], \"\"]");
}

}  // namespace
}  // namespace ng
