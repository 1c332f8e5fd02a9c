// Data shorter than the model's context, down to one sequence: a run ends with a model, or is
// refused in one line before its first step.
#include <cmath>

#include "comm/thread_ranks.h"
#include "support/session_runs.h"

namespace ng {
namespace {

class ShortData : public SessionRuns {
 protected:
  /// A run of sequences of 8 tokens in a model with a context of 64.
  [[nodiscard]] RunConfig run_on(const std::string& file,
                                 std::vector<std::string> settings = {}) const {
    settings.insert(settings.begin(), {"data.train=" + in(file), "data.validation=" + in(file),
                                       "model.context=64", "train.length=8", "train.steps=2"});
    return RunConfig::parse(kSmallRun, "run.toml", settings);
  }
  std::string text(const std::string& name, const std::string& content) {
    write_file_atomically(in(name), content);
    return name;
  }
  /// A finished run with a model, whose sample begins with `begin`.
  void expect_trained(const RunConfig& config, const std::string& begin) const {
    remove_all(in("out"));
    Listener listener;
    const SessionResult result = train(config, listener);
    EXPECT_EQ(result.steps, 2);
    EXPECT_TRUE(std::isfinite(result.validation->loss));
    EXPECT_TRUE(result.sample.starts_with(begin)) << result.sample;
    EXPECT_TRUE(is_file(in("out/model/model.safetensors")));
  }
  /// Refused before anything is written, by a line that has `part`.
  void expect_refused(const RunConfig& config, const std::string& part) const {
    remove_all(in("out"));
    const std::string line = refusal(config, false);
    EXPECT_NE(line.find(part), std::string::npos) << line;
    EXPECT_FALSE(is_folder(in("out")));
  }
};

const char* const kPair = R"({"prompt": "ab", "chosen": "c", "rejected": "d"})";

TEST_F(ShortData, OfOneSequenceOrMoreTrains) {
  expect_trained(run_on(text("nine.txt", "ninebytes")), "ninebyte");
  expect_trained(run_on(text("law.txt", "All the words of the law. All the words.")),
                 "All the words of");
  expect_trained(run_on(text("line.jsonl", R"({"prompt": "abcdefg", "completion": "h"})")),
                 "abcdefgh");
  expect_trained(run_on(text("two.txt", "ab"), {"train.length=1"}), "a");
}

TEST_F(ShortData, TrainsInNarrowNumbersToo) {
  text("nine.txt", "ninebytes");
  for (const char* recipe : {"recipe=mxfp4-sr-rht", "recipe=nvfp4-all", "recipe=fp8-lm"})
    expect_trained(run_on("nine.txt", {recipe, "train.batch=1"}), "ninebyte");
}

TEST_F(ShortData, TrainsOnMoreRanksThanItHasSequences) {
  text("nine.txt", "ninebytes");
  for (const char* mode : {"train.deterministic=ranks", "train.deterministic=global"}) {
    remove_all(in("out"));
    run_ranks(2, [&](Comm& comm) {
      Listener listener;
      Session session(run_on("nine.txt", {mode}),
                      {.out = in("out"), .stop = &listener.stop, .comm = &comm}, listener);
      const SessionResult result = session.train();
      EXPECT_EQ(result.steps, 2);
      EXPECT_TRUE(std::isfinite(result.validation->loss));
    });
    EXPECT_TRUE(is_file(in("out/model/model.safetensors")));
  }
}

TEST_F(ShortData, TrainsAdapters) {
  text("nine.txt", "ninebytes");
  Listener listener;
  train(run_on("nine.txt"), listener, false, "base");
  for (const char* save : {"lora.save=merged", "lora.save=adapter"}) {
    remove_all(in("out"));
    const RunConfig config = RunConfig::parse(
        "train = { steps=2, batch=2, length=8, threads=1 }\n", "run.toml",
        std::vector<std::string>{"data.train=" + in("nine.txt"), "data.validation=0", "lora.rank=2",
                                 save, "model.init=" + in("base/model")});
    const SessionResult result = train(config, listener);
    EXPECT_TRUE(result.sample.starts_with("ninebyte")) << result.sample;
    EXPECT_TRUE(is_folder(in("out/model")));
  }
}

TEST_F(ShortData, TrainsOnASinglePair) {
  expect_trained(run_on(text("pair.jsonl", kPair), {"train.objective=dpo"}), "ab");
  remove_all(in("out"));
  Listener listener;
  train(run_on("pair.jsonl", {"train.objective=dpo", "data.validation=0.5"}), listener);
  EXPECT_TRUE(is_file(in("out/model/model.safetensors"))) << "half of a pair is none";
}

TEST_F(ShortData, OfLessThanOneSequenceIsRefusedBeforeTheFirstStep) {
  const std::string least =
      "at least 9 for sequences of 8: a longer text, or a smaller train.length";
  expect_refused(run_on(text("empty.txt", "")), "empty.txt: data.train: the text is empty");
  expect_refused(run_on(text("empty.jsonl", "\n \n")),
                 "empty.jsonl: data.train: the text is empty");
  expect_refused(run_on(text("one.txt", "a")), "one.txt: 1 token for training: " + least);
  expect_refused(run_on(text("eight.txt", "8 bytes.")), "8 tokens for training: " + least);
  expect_refused(run_on(text("short.jsonl", R"({"text": "a"})")),
                 "2 tokens for training: " + least);
  text("nine.txt", "ninebytes");
  expect_refused(run_on("nine.txt", {"data.validation=" + in("one.txt")}),
                 "one.txt: 1 token for validation: at least 2");
  expect_refused(run_on("nine.txt", {"data.validation=" + in("empty.txt")}), "the text is empty");
  expect_refused(run_on(text("20.txt", std::string(20, 'x')), {"data.validation=0.05"}),
                 "1 token for validation: at least 2, of which the second is predicted: a larger "
                 "part, or 0 for none");
}

TEST_F(ShortData, WithoutTargetsIsRefusedBeforeTheFirstStep) {
  const std::string chat =
      R"({"messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b")";
  text("masked.jsonl", chat + R"(, "weight": 0}]})");
  text("learned.jsonl", chat + "}]}");
  const std::string chatml = "data.template=chatml";
  expect_refused(run_on("masked.jsonl", {chatml}), "masked.jsonl: none of its ");
  expect_refused(run_on("learned.jsonl", {chatml, "data.validation=" + in("masked.jsonl")}),
                 "masked.jsonl: none of its ");
  expect_trained(run_on("learned.jsonl", {chatml}), "<|im_start|>");
}

TEST_F(ShortData, WithoutPairsIsRefusedBeforeTheFirstStep) {
  text("pair.jsonl", kPair);
  text("empty.jsonl", "");
  const std::string dpo = "train.objective=dpo";
  expect_refused(run_on("empty.jsonl", {dpo, "data.validation=0"}), "0 pairs, none to train on");
  expect_refused(run_on("pair.jsonl", {dpo, "data.validation=" + in("empty.jsonl")}),
                 "data.validation: its files hold no pair");
}

}  // namespace
}  // namespace ng
