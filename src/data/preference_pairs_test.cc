// Pairs of JSON lines as sequences of a batch: by hand for texts and chats, and what is refused.
#include "data/preference_pairs.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "data/jsonl.h"
#include "tokenizer/byte_tokenizer.h"

namespace ng {
namespace {

/// A batch of some sequences, and each as text; '.' stands for a token of 0.
struct Filled {
  Filled(int64_t sequences, int64_t context)
      : range{.first = 0, .count = sequences, .context = context},
        inputs(static_cast<size_t>(sequences * context), -1),
        targets(inputs),
        mask(inputs.size(), -1.0f) {}
  [[nodiscard]] BatchSpans spans() { return {inputs, targets, mask}; }
  [[nodiscard]] std::string text_of(const std::vector<int32_t>& ids, size_t sequence) const {
    std::string text;
    const auto context = static_cast<size_t>(range.context);
    for (size_t i = sequence * context; i < (sequence + 1) * context; ++i)
      text += ids[i] == 0 ? '.' : static_cast<char>(ids[i]);
    return text;
  }
  [[nodiscard]] std::string mask_of(size_t sequence) const {
    std::string text;
    const auto context = static_cast<size_t>(range.context);
    for (size_t i = sequence * context; i < (sequence + 1) * context; ++i)
      text += mask[i] == 1.0f ? '1' : mask[i] == 0.0f ? '0' : '?';
    return text;
  }

  SequenceRange range;
  std::vector<int32_t> inputs, targets;
  std::vector<float> mask;
};

PreferencePairs pairs_of(const std::string& lines, const DocumentRules& rules = {}) {
  PreferencePairs pairs("run.toml");
  pairs.add(lines, "t.jsonl", ByteTokenizer(), rules);
  return pairs;
}

// All of them as a validation part: in their order.
Filled shown(const PreferencePairs& pairs, int64_t context) {
  Filled filled(pairs.validation_windows(context), context);
  pairs.validation_batch(filled.range, filled.spans());
  return filled;
}

// With the end token behind them two and five tokens of completion.
const char* const kOne = R"({"prompt": "1+1=", "chosen": "2", "rejected": "thre", "id": 5})";

TEST(PreferencePairs, AreTheChosenThenTheRejectedSequence) {
  const Filled f = shown(pairs_of(kOne), 10);
  EXPECT_EQ(f.text_of(f.inputs, 0), "1+1=2.....");
  EXPECT_EQ(f.text_of(f.targets, 0), "+1=2\xFF.....");
  EXPECT_EQ(f.mask_of(0), "0001100000");
  EXPECT_EQ(f.text_of(f.inputs, 1), "1+1=thre..");
  EXPECT_EQ(f.text_of(f.targets, 1), "+1=thre\xFF..");
  EXPECT_EQ(f.mask_of(1), "0001111100");
}

TEST(PreferencePairs, LongOnesLoseTheBeginningOfTheirPromptBothAlike) {
  PreferencePairs pairs = pairs_of(kOne);
  pairs.cut(1);
  EXPECT_TRUE(pairs.warnings(8).empty()) << "nine tokens, of which the last is no input";
  EXPECT_EQ(pairs.warnings(6),
            std::vector<std::string>{"1 of 1 pair lose the beginning of their prompt: they are "
                                     "longer than 7 tokens"});
  pairs.require_length(5);
  EXPECT_EQ(pairs.sample_prompt(1, 6).size(), 2u);
  pairs.cut(0);
  const Filled f = shown(pairs, 6);
  EXPECT_EQ(f.text_of(f.inputs, 0), "1=2...");
  EXPECT_EQ(f.mask_of(0), "011000");
  EXPECT_EQ(f.text_of(f.inputs, 1), "1=thre");
  EXPECT_EQ(f.mask_of(1), "011111");
  pairs.cut(1);
  try {
    pairs.require_length(4);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "t.jsonl:1: rejected: 5 tokens: at most 4, so that one of the prompt is left in a "
                 "context of 4");
  }
}

TEST(PreferencePairs, OfChatsTheAssistantsLastWordsCount) {
  const std::string line =
      R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
      R"( {"role": "user", "content": "c"}], "chosen": [{"role": "assistant", "content": "yes"}],)"
      R"( "rejected": [{"role": "assistant", "content": "n"}]})";
  const DocumentRules rules{.chat = ChatTemplate::chatml};
  const Preference pair = read_preference(line, rules, "", "");
  const auto target = [](const Document& document) {
    EXPECT_EQ(document.targets.size(), 1u);
    const TextSpan span = document.targets.front();
    return document.text.substr(span.first, span.last - span.first);
  };
  EXPECT_EQ(target(pair.chosen), "yes<|im_end|>");
  EXPECT_EQ(target(pair.rejected), "n<|im_end|>");
  EXPECT_TRUE(pair.rejected.text.ends_with("<|im_start|>assistant\nn<|im_end|>\n"));
  EXPECT_EQ(pairs_of(line, rules).pairs(), 1);
}

TEST(PreferencePairs, AreDrawnByTheirNumber) {
  std::string lines;
  for (char c = 'a'; c <= 'p'; ++c)
    lines += fmt::format("{{\"prompt\": \"{0}\", \"chosen\": \"y\", \"rejected\": \"n\"}}\n", c);
  PreferencePairs pairs = pairs_of(lines);
  pairs.cut(12);
  Filled whole(8, 4), part(4, 4);
  std::set<std::string> seen;
  for (uint32_t step = 0; step < 40; ++step) {
    pairs.train_batch(3, step, whole.range, whole.spans());
    for (size_t i = 0; i < 8; i += 2) {
      const std::string chosen = whole.text_of(whole.inputs, i);
      EXPECT_EQ(chosen.substr(1, 1), "y");
      EXPECT_EQ(whole.text_of(whole.inputs, i + 1), chosen.substr(0, 1) + "n..");
      seen.insert(chosen);
    }
    part.range.first = 4;  // another rank's
    pairs.train_batch(3, step, part.range, part.spans());
    EXPECT_TRUE(std::equal(part.inputs.begin(), part.inputs.end(), whole.inputs.begin() + 16));
    EXPECT_TRUE(std::equal(part.mask.begin(), part.mask.end(), whole.mask.begin() + 16));
  }
  EXPECT_EQ(seen.size(), 12u) << "all that are to train on, and no other";
  EXPECT_TRUE(seen.contains("ay..") && seen.contains("ly.."));
}

TEST(PreferencePairs, ValidationEndsInSequencesWithoutTargets) {
  PreferencePairs pairs = pairs_of(std::string(kOne) + "\n\n" + kOne + "\n");
  pairs.cut(1);
  EXPECT_TRUE(pairs.has_validation());
  EXPECT_EQ(pairs.validation_windows(9), 2);
  Filled f(4, 9);
  EXPECT_EQ(pairs.validation_batch(f.range, f.spans()), 2 + 5);
  EXPECT_EQ(f.mask_of(2) + f.mask_of(3), std::string(18, '0'));
  EXPECT_EQ(f.text_of(f.inputs, 3), ".........");
  EXPECT_EQ(pairs.size_text(), "1 pair to train on, 1 to validate on");
}

TEST(PreferencePairs, TheChecksumIsOfTokensMasksAndCut) {
  PreferencePairs pairs = pairs_of(kOne);
  const std::string uncut = pairs.checksum();
  pairs.cut(1);
  EXPECT_NE(pairs.checksum(), uncut);
  const auto of = [](const char* line) { return pairs_of(line).checksum(); };
  EXPECT_EQ(of(R"({"prompt": "1+1=", "chosen": "2", "rejected": "thre"})"), uncut);
  EXPECT_NE(of(R"({"prompt": "1+1", "chosen": "=2", "rejected": "=thre"})"), uncut);
  EXPECT_NE(of(R"({"prompt": "1+1=", "chosen": "thre", "rejected": "2"})"), uncut);
}

TEST(PreferencePairs, WhatIsWrongIsNamed) {
  struct Case {
    const char* line;
    const char* says;
  };
  const Case kCases[] = {
      {"{\"prompt\": \"a\"", "t.jsonl:2: not valid JSON: "},
      {"5", "t.jsonl:2: 5 is not an object"},
      {"{\"chosen\": \"b\", \"rejected\": \"c\"}", "t.jsonl:2: prompt: missing"},
      {"{\"prompt\": \"a\", \"completion\": \"b\"}", "t.jsonl:2: chosen: missing"},
      {"{\"prompt\": \"a\", \"chosen\": \"b\"}", "t.jsonl:2: rejected: missing"},
      {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": 5}",
       "t.jsonl:2: rejected: 5: a string"},
      {"{\"prompt\": \"\", \"chosen\": \"b\", \"rejected\": \"c\"}",
       "t.jsonl:2: prompt: \"\": a text that is not empty"},
      {"{\"prompt\": \"a\", \"chosen\": \"\", \"rejected\": \"c\"}",
       "t.jsonl:2: chosen: \"\": a text that is not empty"},
      {"{\"prompt\": 1, \"chosen\": \"b\", \"rejected\": \"c\"}",
       "t.jsonl:2: prompt: 1: a string, or a list of "},
      {"{\"prompt\": [], \"chosen\": [], \"rejected\": []}",
       "t.jsonl:2: prompt: []: a list of {\"role\": "},
      {"{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"chosen\": \"b\"}",
       "t.jsonl:2: chosen: \"b\": a list of {\"role\": "},
      {"{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], "
       "\"chosen\": [{\"role\": \"user\", \"content\": \"b\"}]}",
       "t.jsonl:2: chosen: no message of the assistant: "},
      {"{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], "
       "\"chosen\": [{\"role\": \"asistant\", \"content\": \"b\"}]}",
       "t.jsonl:2: chosen[0].role: \"asistant\": \"system\", "},
  };
  for (const Case& wrong : kCases) {
    try {
      (void)pairs_of(std::string("\n") + wrong.line + "\n", {.chat = ChatTemplate::llama3});
      ADD_FAILURE() << wrong.line;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string_view(error.what()).starts_with(wrong.says)) << error.what();
    }
  }
  try {
    (void)pairs_of(R"({"prompt": [{"role": "user", "content": "a"}], "chosen": []})");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "t.jsonl:1: prompt: a chat, and no template that says how it becomes text: "
                 "data.template: chatml, llama3, qwen2.5 or qwen3");
  }
}

}  // namespace
}  // namespace ng
