// Runs on documents with loss masks: resumed to the bit, and what they record.
#include <cmath>

#include "support/session_runs.h"

namespace ng {
namespace {

class MaskedSession : public SessionRuns {
 protected:
  void SetUp() override {
    SessionRuns::SetUp();
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += fmt::format("{{\"prompt\": \"{} plus {} is\", \"completion\": \" {}.\\n\"}}\n", i,
                           i * i, i + i * i);
    write_file_atomically(in("sums.jsonl"), lines);
  }
  [[nodiscard]] RunConfig masked(std::vector<std::string> settings = {}) const {
    // Where these are drawn from the beginning, each step has targets.
    settings.insert(settings.begin(),
                    {"data.train=" + in("sums.jsonl"), "data.validation_split=tail"});
    return config(settings);
  }
  /// Values of a key of metrics.jsonl, in order.
  [[nodiscard]] std::vector<double> recorded(const char* key) const {
    std::vector<double> values;
    const std::string text = read_file(in("out/metrics.jsonl"), kMaxFile);
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = text.find('\n', begin);
      const Json line = Json::parse(text.substr(begin, end - begin));
      if (line.contains(key)) values.push_back(line[key]);
    }
    return values;
  }
};

TEST_F(MaskedSession, InterruptedAnywhereEndsInTheSameBits) {
  expect_same_end_where_interrupted(
      [&](const std::vector<std::string>& settings) { return masked(settings); },
      {"recipe=mxfp4-sr-rht", "train.accumulate=2"});
}

TEST_F(MaskedSession, RecordsTargetsAndMeansOverThem) {
  Listener listener;
  train(masked(), listener);
  const std::vector<double> targets = recorded("targets"), losses = recorded("loss");
  ASSERT_EQ(targets.size(), 6u);
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_GT(targets[i], 0);
    EXPECT_LT(targets[i], 16) << "of 2 x 8 tokens";
    EXPECT_NEAR(losses[i], std::log(256.0), 0.5) << "of an untrained model";
  }
  remove_all(in("out"));
  train(config(), listener);
  EXPECT_TRUE(recorded("targets").empty()) << "a plain text has no mask";
}

TEST_F(MaskedSession, DocumentsDoNotSeeEachOtherWhereTheRunSaysSo) {
  Listener listener;
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += fmt::format("{{\"text\": \"{}\"}}\n", 100 + i);
  write_file_atomically(in("sums.jsonl"), lines);
  train(masked(), listener);
  const std::vector<double> crossing = recorded("loss");
  remove_all(in("out"));
  train(masked({"train.document_mask=true"}), listener);
  EXPECT_NE(recorded("loss"), crossing);
  remove_all(in("out"));
  train(config({"train.document_mask=true"}), listener);
  const std::vector<double> one = recorded("loss");
  remove_all(in("out"));
  train(config(), listener);
  EXPECT_EQ(one, recorded("loss")) << "a plain text is one document";
}

TEST_F(MaskedSession, StepsWithoutTargetsGoBy) {
  std::string line = "{\"prompt\": \"" + std::string(4000, 'p') + "\", \"completion\": \"c\"}\n";
  write_file_atomically(in("rare.jsonl"), line);
  Listener listener;
  const SessionResult result =
      train(masked({"data.train=" + in("rare.jsonl"), "data.validation=0"}), listener);
  EXPECT_EQ(result.steps, 6);
  EXPECT_EQ(result.skipped, 0);
  EXPECT_EQ(recorded("targets"), std::vector<double>(6, 0));
  EXPECT_EQ(recorded("loss"), std::vector<double>(6, 0));
}

TEST_F(MaskedSession, RefusesInOneLine) {
  write_file_atomically(in("sums.jsonl"), "{\"text\": \"a\"}\n{\"text\": 5}\n");
  EXPECT_EQ(refusal(masked(), false), in("sums.jsonl") + ":2: text: 5: a string");
  write_file_atomically(in("sums.jsonl"),
                        "{\"messages\": [{\"role\": \"user\", \"content\": \"who are you?\"}]}\n");
  EXPECT_EQ(refusal(masked(), false),
            in("sums.jsonl") +
                ":1: messages: a chat, and no template that says how it becomes text: "
                "data.template: chatml, llama3, qwen2.5 or qwen3");
  const std::string none = refusal(masked({"data.template=chatml"}), false);
  EXPECT_NE(none.find("is a target: completions, or messages of an assistant"), std::string::npos)
      << none;
  EXPECT_FALSE(is_folder(in("out")));
}

}  // namespace
}  // namespace ng
