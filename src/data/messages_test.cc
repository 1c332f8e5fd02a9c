// What lines say beside role and content: which parts are targets by hand, every other key by name.
#include "data/messages.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/jsonl.h"

namespace ng {
namespace {

const DocumentRules kChatml = {.chat = ChatTemplate::chatml};

/// The text of a line with [brackets] around what is learned.
std::string marked(const std::string& line, const DocumentRules& rules = kChatml) {
  const Document document = read_document(line, rules, "", "t.jsonl:1");
  std::string text = document.text;
  for (size_t i = document.targets.size(); i-- > 0;) {
    text.insert(document.targets[i].last, "]");
    text.insert(document.targets[i].first, "[");
  }
  return text;
}

std::string refusal(const std::string& line, const DocumentRules& rules = kChatml) {
  try {
    return "read: " + marked(line, rules);
  } catch (const Error& error) {
    return error.what();
  }
}

void expect_refused(const std::string& line, std::string_view says,
                    const DocumentRules& rules = kChatml) {
  const std::string found = refusal(line, rules);
  EXPECT_TRUE(found.starts_with(says)) << line << "\n" << found;
  EXPECT_EQ(found.find('\n'), std::string::npos);
}

/// A chat of a question and an answer with `more` behind the answer's content.
std::string answered(const std::string& more) {
  return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a")" +
         more + "}]}";
}

const char* const kQuestion = "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n";

TEST(MessageWeights, SayWhetherAMessageIsLearned) {
  const std::string learned = kQuestion + std::string("[a<|im_end|>]\n");
  const std::string masked = kQuestion + std::string("a<|im_end|>\n");
  EXPECT_EQ(marked(answered("")), learned);
  EXPECT_EQ(marked(answered(R"(, "weight": 1)")), learned);
  EXPECT_EQ(marked(answered(R"(, "weight": 1.0)")), learned);
  EXPECT_EQ(marked(answered(R"(, "weight": null)")), learned);
  EXPECT_EQ(marked(answered(R"(, "train": true)")), learned);
  EXPECT_EQ(marked(answered(R"(, "weight": 0)")), masked);
  EXPECT_EQ(marked(answered(R"(, "weight": 0.0)")), masked);
  EXPECT_EQ(marked(answered(R"(, "train": false)")), masked);
}

TEST(MessageWeights, OfOneOfTwoAnswersLeaveTheOther) {
  EXPECT_EQ(marked(R"({"messages": [{"role": "user", "content": "Area of a square of 3?"},)"
                   R"({"role": "assistant", "content": "It is 9.", "weight": 0},)"
                   R"({"role": "user", "content": "In words?"},)"
                   R"({"role": "assistant", "content": "Nine."}]})"),
            "<|im_start|>user\nArea of a square of 3?<|im_end|>\n"
            "<|im_start|>assistant\nIt is 9.<|im_end|>\n"
            "<|im_start|>user\nIn words?<|im_end|>\n"
            "<|im_start|>assistant\n[Nine.<|im_end|>]\n");
}

TEST(MessageWeights, TrainAloneMakesAnothersMessageATarget) {
  const auto user = [](const std::string& more) {
    return R"({"messages": [{"role": "user", "content": "q")" + more + "}]}";
  };
  EXPECT_EQ(marked(user(R"(, "weight": 0)")), "<|im_start|>user\nq<|im_end|>\n");
  EXPECT_EQ(marked(user(R"(, "train": false)")), "<|im_start|>user\nq<|im_end|>\n");
  EXPECT_EQ(marked(user(R"(, "train": true)")), "<|im_start|>user\n[q<|im_end|>]\n");
  expect_refused(user(R"(, "weight": 1)"), "t.jsonl:1: messages[0].weight: 1 of the user: 0, or ");
}

TEST(MessageWeights, OfOtherValuesAreRefused) {
  const std::string place = "t.jsonl:1: messages[1].";
  expect_refused(answered(R"(, "weight": 0.5)"), place + "weight: 0.5: 0 or 1");
  expect_refused(answered(R"(, "weight": 2)"), place + "weight: 2: 0 or 1");
  expect_refused(answered(R"(, "weight": -1)"), place + "weight: -1: 0 or 1");
  expect_refused(answered(R"(, "weight": false)"), place + "weight: false: 0 or 1");
  expect_refused(answered(R"(, "weight": "0")"), place + "weight: \"0\": 0 or 1");
  expect_refused(answered(R"(, "train": 0)"), place + "train: 0: true or false");
  expect_refused(answered(R"(, "train": true, "weight": 1)"), place + "weight: beside train: ");
}

TEST(MessageContents, OfPartsAreTheirTextsOneBehindTheOther) {
  const auto chat = [](const std::string& content) {
    return R"({"messages": [{"role": "assistant", "content": )" + content + "}]}";
  };
  EXPECT_EQ(marked(chat(R"([{"type": "text", "text": "a "}, {"type": "text", "text": "b\n"}])")),
            "<|im_start|>assistant\n[a b\n<|im_end|>]\n");
  EXPECT_EQ(marked(chat(R"([{"type": "text", "text": " a "}, {"type": "text", "text": " b "}])"),
                   {.chat = ChatTemplate::llama3}),
            "<|start_header_id|>assistant<|end_header_id|>\n\n[a  b<|eot_id|>]");
  EXPECT_EQ(marked(chat(R"([{"type": "text", "text": "a", "image_url": null}])")),
            "<|im_start|>assistant\n[a<|im_end|>]\n");
  const std::string place = "t.jsonl:1: messages[0].content";
  expect_refused(chat(R"([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}])"),
                 place + "[1].type: \"image_url\": \"text\"");
  expect_refused(chat(R"([{"text": "a"}])"), place + "[0].type: missing");
  expect_refused(chat(R"([{"type": "text"}])"), place + "[0].text: missing");
  expect_refused(chat(R"(["a"])"), place + "[0]: \"a\" is not an object");
  expect_refused(chat(R"([{"type": "text", "text": "a", "weight": 0}])"),
                 place + "[0].weight: 0, ");
  expect_refused(chat("null"), place + ": missing");
  expect_refused(chat("5"), place + ": 5: a string");
}

TEST(UnknownKeys, OfLinesAreRefusedByName) {
  const char* const kNotRead = ", a key that is not read here: ";
  const auto expect = [&](const std::string& line, const std::string& key,
                          const std::string& value) {
    expect_refused(line, "t.jsonl:1: " + key + ": " + value + kNotRead);
  };
  expect(R"({"text": "a", "weight": 0})", "weight", "0");
  expect(R"({"text": "a", "loss_mask": [0]})", "loss_mask", "[0]");
  expect(R"({"prompt": "a", "completion": "b", "system": "s"})", "system", "\"s\"");
  expect(R"({"messages": [{"role": "user", "content": "q"}], "functions": []})", "functions", "[]");
  expect(R"({"messages": [{"role": "user", "content": "q"}], "split": "test"})", "split",
         "\"test\"");
  expect(R"({"instruction": "a", "output": "b", "context": "c"})", "context", "\"c\"");
  expect(R"({"conversations": [{"from": "gpt", "value": "a"}], "items": [1]})", "items", "[1]");
}

TEST(UnknownKeys, OfMessagesAreRefusedByName) {
  const auto expect = [&](const std::string& more, const std::string& says) {
    expect_refused(answered(more), "t.jsonl:1: messages[1]." + says);
  };
  expect(R"(, "loss": false)", "loss: false, a key that is not read here: role, content, weight, ");
  expect(R"(, "training": false)", "training: false, a key that is not read here: ");
  expect(R"(, "train_detail": [])", "train_detail: [], a key that is not read here: ");
  expect(R"(, "name": "bob")", "name: \"bob\", a key that is not read here: ");
  expect(R"(, "function_call": {"name": "f"})", "function_call: {\"name\":\"f\"}, a key that is ");
  expect_refused(
      R"({"messages": [{"role": "assistant", "content": null, "function_call": {"name": "f"}}]})",
      "t.jsonl:1: messages[0].function_call: {\"name\":\"f\"}, a key that is ");
  expect(R"(, "prefix": true)", "prefix: true, a key that is not read here: ");
  expect(R"(, "value": "b")", "value: \"b\", a key that is not read here: role, content, ");
}

TEST(UnknownKeys, ThatSayWhereALineComesFromAreLeftOut) {
  const char* const kMore =
      R"(, "id": 7, "source": "web", "metadata": {"weight": 0}, "url": "u", "timestamp": "t"})";
  EXPECT_EQ(marked(R"({"text": "a")" + std::string(kMore)), "[a]");
  EXPECT_EQ(marked(R"({"prompt": "a", "completion": "b")" + std::string(kMore)), "a[b]");
  EXPECT_EQ(marked(R"({"messages": [{"role": "assistant", "content": "a", "id": "m1"}])" +
                   std::string(kMore)),
            "<|im_start|>assistant\n[a<|im_end|>]\n");
  EXPECT_EQ(marked(R"({"text": "a", "weight": null})"), "[a]") << "null says nothing";
}

TEST(UnknownKeys, AreLeftOutWhereTheUserNamesThem) {
  const DocumentRules rules = {.chat = ChatTemplate::chatml, .ignored_keys = {"score", "weight"}};
  EXPECT_EQ(marked(R"({"text": "a", "score": 0.5})", rules), "[a]");
  EXPECT_EQ(marked(answered(R"(, "weight": 0, "score": 1)"), rules),
            kQuestion + std::string("[a<|im_end|>]\n"));
  EXPECT_EQ(refusal(R"({"text": "a", "rank": 5})", rules),
            "t.jsonl:1: rank: 5, a key that is not read here: text, or data.ignored_keys with its "
            "name");
}

TEST(UnknownKeys, ATemplateWithoutAPlaceForToolsRefusesThem) {
  const std::string remedy = ": data.template: qwen2.5 or qwen3";
  const auto expect = [&](const std::string& line, const std::string& key,
                          const std::string& value) {
    expect_refused(line,
                   "t.jsonl:1: " + key + ": " + value + ", for which chatml has no place" + remedy);
  };
  expect(R"({"messages": [{"role": "user", "content": "q"}], "tools": [{"type": "function"}]})",
         "tools", R"([{"type":"function"}])");
  expect(answered(R"(, "tool_calls": [{"name": "f"}])"), "messages[1].tool_calls",
         R"([{"name":"f"}])");
  expect(R"({"messages": [{"role": "tool", "content": "q", "tool_call_id": "1"}]})",
         "messages[0].tool_call_id", "\"1\"");
  expect(R"({"messages": [{"role": "tool", "content": "q", "name": "f"}]})", "messages[0].name",
         "\"f\"");
  expect_refused(answered(R"(, "reasoning_content": "r")"),
                 "t.jsonl:1: messages[1].reasoning_content: \"r\", for which chatml has no place: "
                 "data.template: qwen3");
  const std::string learned = kQuestion + std::string("[a<|im_end|>]\n");
  EXPECT_EQ(marked(answered(R"(, "tool_calls": [], "reasoning_content": "")")), learned);
  EXPECT_EQ(marked(answered("").insert(1, R"("tools": [], )")), learned);
}

TEST(ShareGpt, LinesAreChats) {
  const std::string chat =
      R"("conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "h"},)"
      R"({"from": "gpt", "value": "g"}, {"from": "user", "value": "u", "weight": 0},)"
      R"({"from": "assistant", "value": "a", "weight": 0}, {"from": "observation", "value": "o"},)"
      R"({"from": "chatgpt", "value": "c"}]})";
  const std::string text =
      "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nh<|im_end|>\n"
      "<|im_start|>assistant\n[g<|im_end|>]\n<|im_start|>user\nu<|im_end|>\n"
      "<|im_start|>assistant\na<|im_end|>\n<|im_start|>tool\no<|im_end|>\n"
      "<|im_start|>assistant\n[c<|im_end|>]\n";
  EXPECT_EQ(marked("{" + chat), text);
  EXPECT_EQ(marked(R"({"id": "x", "system": "", )" + chat), text);
  EXPECT_EQ(marked(R"({"system": "s", "conversations": [{"from": "human", "value": "h"}]})"),
            "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nh<|im_end|>\n");
  EXPECT_EQ(marked(R"({"conversations": [{"role": "user", "content": "h"}]})"),
            "<|im_start|>user\nh<|im_end|>\n");
  expect_refused(R"({"system": "t", )" + chat,
                 "t.jsonl:1: system: \"t\": that, or the system's message in conversations");
  expect_refused(R"({"conversations": [{"from": "bot", "value": "h"}]})",
                 "t.jsonl:1: conversations[0].from: \"bot\": \"human\", \"gpt\", ");
  expect_refused(R"({"conversations": [{"from": "gpt"}]})",
                 "t.jsonl:1: conversations[0].value: missing");
  expect_refused(R"({"conversations": [{"from": "function_call", "value": "{}"}]})",
                 "t.jsonl:1: conversations[0].value: \"{}\", for which chatml has no place");
  expect_refused(R"({"conversations": []})", "t.jsonl:1: conversations: []: a list of ");
  expect_refused("{" + chat, "t.jsonl:1: conversations: a chat, and no template ", {});
}

TEST(Alpaca, LinesAreAQuestionAndAnAnswer) {
  EXPECT_EQ(marked(R"({"instruction": "Add.", "input": "1 2", "output": "3"})"),
            "<|im_start|>user\nAdd.\n1 2<|im_end|>\n<|im_start|>assistant\n[3<|im_end|>]\n");
  EXPECT_EQ(marked(R"({"instruction": "Sing.", "input": "", "output": "La."})"),
            "<|im_start|>user\nSing.<|im_end|>\n<|im_start|>assistant\n[La.<|im_end|>]\n");
  EXPECT_EQ(
      marked(R"({"instruction": "c", "output": "d", "system": "s", "history": [["a", "b"]]})"),
      "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
      "<|im_start|>assistant\n[b<|im_end|>]\n<|im_start|>user\nc<|im_end|>\n"
      "<|im_start|>assistant\n[d<|im_end|>]\n");
}

TEST(Alpaca, WithoutATemplateIsAPromptAndItsCompletion) {
  EXPECT_EQ(marked(R"({"instruction": "Add.", "input": "1 2", "output": "3"})", {}),
            "Add.\n1 2\n[3]");
  EXPECT_EQ(marked(R"({"instruction": "Sing.", "output": "La.", "history": []})", {}),
            "Sing.\n[La.]");
  EXPECT_EQ(read_document(R"({"instruction": "a", "output": "b"})", {}, "", "").kind,
            DocumentKind::completion);
  expect_refused(R"({"instruction": "a", "output": "b", "system": "s"})",
                 "t.jsonl:1: system: part of a chat, and no template ", {});
  expect_refused(R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})",
                 "t.jsonl:1: history: part of a chat, and no template ", {});
}

TEST(Alpaca, WhatIsWrongIsNamed) {
  expect_refused(R"({"instruction": "a"})", "t.jsonl:1: output: missing");
  expect_refused(R"({"output": "a"})", "t.jsonl:1: instruction: missing");
  expect_refused(R"({"instruction": "a", "input": 5, "output": "b"})", "t.jsonl:1: input: 5: ");
  expect_refused(R"({"instruction": "a", "output": "b", "history": [["c"]]})",
                 "t.jsonl:1: history: [[\"c\"]]: a list of [question, answer]");
  expect_refused(R"({"instruction": "a", "output": "b", "text": "c"})",
                 "t.jsonl:1: more than one kind of document: ");
  EXPECT_EQ(marked(R"({"output": "a text"})", {.text_key = "output"}), "[a text]")
      << "what the user calls the text is it";
}

TEST(PairsOfMessages, FollowTheRulesOfMessages) {
  const auto pair = [](const std::string& prompt, const std::string& chosen,
                       const std::string& more = "") {
    return R"({"prompt": [{"role": "user", "content": "q")" + prompt +
           R"(}], "chosen": [{"role": "assistant", "content": "a"},)"
           R"({"role": "user", "content": "r"},)"
           R"({"role": "assistant", "content": "b")" +
           chosen + R"(}], "rejected": [{"from": "gpt", "value": "n"}])" + more + "}";
  };
  const auto targets = [](const Document& document) {
    std::string text;
    for (const TextSpan& span : document.targets)
      text += document.text.substr(span.first, span.last - span.first) + "|";
    return text;
  };
  const auto read = [&](const std::string& line) {
    return read_preference(line, kChatml, "", "p");
  };
  EXPECT_EQ(targets(read(pair("", "")).chosen), "a<|im_end|>|b<|im_end|>|");
  EXPECT_EQ(targets(read(pair("", R"(, "weight": 0)")).chosen), "a<|im_end|>|");
  EXPECT_EQ(targets(read(pair(R"(, "weight": 0)", "")).rejected), "n<|im_end|>|");
  const auto says = [&](const std::string& line) {
    try {
      (void)read(line);
      return std::string("read");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_TRUE(says(pair("", R"(, "loss": 0)")).starts_with("p: chosen[2].loss: 0, a key that is "));
  EXPECT_TRUE(says(pair("", "", R"(, "margin": 2)")).starts_with("p: margin: 2, a key that is "));
  EXPECT_TRUE(says(pair(R"(, "train": true)", ""))
                  .starts_with("p: prompt: a message with weight 1 or train true: none: "));
  EXPECT_TRUE(says(R"({"prompt": "a", "chosen": "b", "rejected": "c", "margin": 2})")
                  .starts_with("p: margin: 2, a key that is not read here: prompt, chosen, "));
  EXPECT_EQ(says(pair("", "", R"(, "id": 2)")), "read");
}

}  // namespace
}  // namespace ng
