// What a run reads, what it validates on and how long it is: said, and as it was before.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

class DataFiles : public Program {
 protected:
  /// tiny.toml with other lines in place of its text's.
  void write_run(const std::string& name, const std::string& data) const {
    std::string run = kTinyRun;
    const std::string from = "train = \"tiny.txt\"\nvalidation_split = \"tail\"\n";
    run.replace(run.find(from), from.size(), data);
    write_text(path(name), run);
  }
  /// texts/: two .txt, one of them below and one binary, and two .pm.
  void write_folder() const {
    fs::create_directories(path("texts/sub"));
    write_text(path("texts/a.txt"), text_of(path("tiny.txt")));
    write_text(path("texts/sub/b.txt"), text_of(path("tiny.txt")));
    write_text(path("texts/c.txt"), std::string("a\0b", 3));
    write_text(path("texts/d.pm"), "my $x;");
    write_text(path("texts/sub/e.pm"), text_of(path("tiny.txt")) + "#");
  }
  [[nodiscard]] Json plan_of(const std::vector<std::string>& more) const {
    std::vector<std::string> command = {"train"};
    command.insert(command.end(), more.begin(), more.end());
    command.emplace_back("--json-plan");
    return Json::parse(run_well(command));
  }
  [[nodiscard]] std::vector<Json> events(const std::string& folder, const std::string& name) const {
    std::vector<Json> found;
    std::istringstream lines(text_of(path(folder + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      if (json.value("event", "") == name) found.push_back(json);
    }
    return found;
  }
};

TEST_F(DataFiles, APlanListsEveryFileOfAFolderAndWritesNothing) {
  write_folder();
  write_run("run.toml", "train = \"texts\"\n");
  const Json plan = plan_of({"run.toml", "--recipe", "nvfp4-late-bf16", "--set", "seed=7"});
  const Json& train = plan["data"]["train"];
  EXPECT_EQ(train["read"], Json::parse(R"([{"path": "texts/a.txt", "bytes": 2700},
                                           {"path": "texts/sub/b.txt", "bytes": 2700}])"));
  EXPECT_EQ(train["left_out"],
            Json::parse(R"([{"path": "texts/c.txt", "bytes": 3, "reason": "binary"},
                            {"path": "texts/d.pm", "bytes": 6, "reason": "pattern"},
                            {"path": "texts/sub/e.pm", "bytes": 2701, "reason": "pattern"}])"));
  EXPECT_EQ(train["files"], 2);
  EXPECT_EQ(train["bytes"], 5400);
  EXPECT_EQ(plan["data"]["validation"]["from"], "spread");
  EXPECT_EQ(plan["data"]["validation"]["tokens"], 270);
  EXPECT_EQ(plan["data"]["train"]["tokens"], 5130);
  EXPECT_EQ(plan["steps"], 12);
  EXPECT_EQ(plan["tokens"], 12 * 2 * 2 * 32);
  EXPECT_EQ(plan["seed"], 7);
  EXPECT_EQ(plan["recipe"]["name"], "nvfp4-late-bf16");
  ASSERT_EQ(plan["phases"].size(), 2u);
  EXPECT_EQ(plan["phases"][0]["first_step"], 1);
  EXPECT_EQ(plan["phases"][1]["first_step"], 11) << "82 % of 12 steps";
  write_text(path("own.toml"), "[[override]]\nlayers = [\"blocks.*.attn.*\"]\nlinear = \"fp32\"\n");
  const Json layers = plan_of({"run.toml", "--recipe", "own.toml"})["layers"];
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0]["patterns"], Json::parse(R"(["blocks.*.attn.*"])"));
  EXPECT_EQ(layers[0]["layers"].size(), 2u * 4u);
  const Json all = plan_of({"run.toml", "--set", "data.train=texts/**/*.pm"});
  EXPECT_EQ(all["data"]["train"]["files"], 2);
  EXPECT_FALSE(fs::exists(path("runs")));
  expect_refused({"train", "run.toml", "--json-plan", "--set", "data.train=none"}, 1,
                 {"data.train", "none"});
}

// As train does: a step of the checkpoint has two micro-batches.
TEST_F(DataFiles, APlanOfARunThatGoesOnKeepsItsGlobalBatch) {
  (void)run_well({"train", "tiny.toml", "--set", "train.steps=2", "--out", "r"});
  const std::string more = "train.accumulate=5";
  const Json plan = plan_of({"tiny.toml", "--out", "r", "--resume", "--set", more});
  EXPECT_EQ(plan["tokens_per_step"], 2 * 2 * 32);
  ASSERT_EQ(plan["notes"].size(), 1u);
  const std::string note = plan["notes"][0];
  EXPECT_NE(note.find("train.accumulate = 5 is taken as 2: a step of the checkpoint has 2 "
                      "micro-batches, which 1 rank does"),
            std::string::npos)
      << note;
  EXPECT_NE(run({"train", "tiny.toml", "--out", "r", "--resume", "--set", more}).err.find(note),
            std::string::npos);
}

TEST_F(DataFiles, ARunSaysWhatAFolderMeans) {
  write_folder();
  write_run("run.toml", "train = \"texts\"\n");
  const Result result = run({"train", "run.toml", "--out", "run"});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string line =
      "files       2 files (5.3 KiB); left out 3 (2.6 KiB): 2 .pm by pattern, "
      "1 binary (texts/c.txt)\n";
  EXPECT_NE(result.out.find(line), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(": 4 blocks spread over the text\n"), std::string::npos) << result.out;
  const std::vector<Json> said = events("run", "data");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0]["step"], 0);
  EXPECT_EQ(said[0]["train"]["files"], 2);
  EXPECT_EQ(said[0]["train"]["left_out"]["pattern"]["files"], 2);
  EXPECT_EQ(said[0]["train"]["left_out"]["binary"]["first"], "texts/c.txt");
  EXPECT_EQ(said[0]["validation"]["from"], "spread");
  write_run("one.toml", "train = \"texts/a.txt\"\n");
  const std::string one = run_well({"train", "one.toml", "--out", "one"});
  EXPECT_NE(one.find("\nfiles       1 file (2.6 KiB)\n"), std::string::npos) << one;
}

TEST_F(DataFiles, WhatIsTrainedOnAndValidatesIsNamedBeforeTheFirstStep) {
  write_folder();
  write_run("run.toml", "train = \"texts\"\nvalidation = \"texts/*.txt\"\n");
  const std::string said =
      "the validation loss is that of texts that are trained on: data.train has 1 file of "
      "data.validation too: texts/a.txt";
  EXPECT_EQ(plan_of({"run.toml"})["notes"], Json({said}));
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"train", "run.toml", "--out", "run"},
        {"compare", "run.toml", "--recipes", "bf16", "--seeds", "1", "--no-twin", "--out", "c"}}) {
    const Result result = run(command);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "narrowgauge: note: " + said + "\n");
  }
}

TEST_F(DataFiles, WhatComesTwiceIsNamedAndWhatIsReadIsNotLeftOut) {
  write_folder();
  write_run("run.toml", "train = [\"texts\", \"texts/d.pm\", \"texts/a.txt\"]\n");
  const Json plan = plan_of({"run.toml"});
  EXPECT_EQ(plan["data"]["train"]["files"], 4);
  EXPECT_EQ(plan["data"]["train"]["read"][2]["path"], "texts/d.pm");
  for (const Json& left : plan["data"]["train"]["left_out"]) EXPECT_NE(left["path"], "texts/d.pm");
  EXPECT_EQ(plan["notes"][0],
            "data.train has 1 file more than once, and reads it as often; what one copy validates "
            "the other trains on: texts/a.txt");
}

TEST_F(DataFiles, EvalSaysWhichFilesItRead) {
  (void)run_well({"train", "tiny.toml", "--out", "run", "--set", "train.steps=1"});
  write_folder();
  const std::string out = run_well({"eval", "run", "--data", "texts"});
  EXPECT_NE(out.find("text           texts: 2 files (5.3 KiB); left out 3 (2.6 KiB): 2 .pm by "
                     "pattern, 1 binary (texts/c.txt)\n"),
            std::string::npos)
      << out;
  const Json data = Json::parse(run_well({"eval", "run", "--data", "texts", "--json"}))["data"];
  EXPECT_EQ(data["files"], 2);
  EXPECT_EQ(data["bytes"], 5400);
  EXPECT_EQ(data["read"][1], Json::parse(R"({"path": "texts/sub/b.txt", "bytes": 2700})"));
  EXPECT_EQ(data["left_out"][0]["reason"], "binary");
}

// A run.toml of before the key: the run goes on with its tail, by its own run file and by run.toml.
TEST_F(DataFiles, AnOlderRunKeepsItsTailToTheBit) {
  write_run("new.toml", "train = \"tiny.txt\"\n");
  const std::string constant = "train.schedule=constant";  // in 8 steps as in 12
  (void)run_well({"train", "tiny.toml", "--out", "whole", "--set", constant});
  for (const std::string file : {"new.toml", "old/run.toml"}) {
    fs::remove_all(path("old"));
    (void)run_well(
        {"train", "tiny.toml", "--out", "old", "--set", "train.steps=8", "--set", constant});
    std::string toml = text_of(path("old/run.toml"));
    const std::string key = "data.validation_split = \"tail\"\n";
    ASSERT_NE(toml.find(key), std::string::npos);
    const std::vector<std::string> resume = {
        "train", file, "--out", "old", "--set", "train.steps=12", "--set", constant, "--resume"};
    if (file == "new.toml") {
      EXPECT_NE(run(resume).err.find("text"), std::string::npos) << "the key says spread";
    }
    toml.erase(toml.find(key), key.size());
    write_text(path("old/run.toml"), toml);
    const Result result = run(resume);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(text_of(path("old/run.toml")).find(key), std::string::npos);
    EXPECT_TRUE(weights("old") == weights("whole"));
  }
}

TEST_F(DataFiles, EpochsAreCountedInSteps) {
  const Result result =
      run({"train", "tiny.toml", "--out", "run", "--set", "train.steps=\"0.5 epochs\""});
  EXPECT_EQ(result.code, 0) << result.err;  // 0.5 · 2,565 / 128
  EXPECT_NE(result.err.find("train.steps = \"0.5 epochs\" are 11 steps of 128 tokens: there are "
                            "2,565 to train on"),
            std::string::npos)
      << result.err;
  EXPECT_NE(text_of(path("run/run.toml")).find("train.steps = 11\n"), std::string::npos);
  const std::vector<std::string> compare = {
      "compare", "tiny.toml", "--recipes", "fp32,bf16",
      "--out",   "both",      "--set",     "train.steps=\"0.2 epochs\"",
      "--seeds", "1",         "--no-twin"};
  EXPECT_EQ(run(compare).code, 0);
  const std::string again = run_well(compare);
  EXPECT_NE(again.find("2 of 2: both/bf16-seed1\n  is already finished"), std::string::npos)
      << again;
  for (const char* wrong : {"\"2 weeks\"", "\"0 epochs\"", "\"epochs\"", "0"})
    expect_refused({"train", "tiny.toml", "--set", std::string("train.steps=") + wrong}, 1,
                   {"train.steps", "epochs"});
}

TEST_F(DataFiles, PathsAreRelativeToTheRunFileFirst) {
  fs::create_directories(path("exp"));
  write_run("exp/run.toml", "train = \"beside.txt\"\n");
  write_text(path("exp/beside.txt"), text_of(path("tiny.txt")) + "!");
  EXPECT_EQ(plan_of({"exp/run.toml"})["data"]["train"]["read"][0]["path"], "exp/beside.txt");
  write_text(path("beside.txt"), text_of(path("tiny.txt")));
  EXPECT_EQ(plan_of({"exp/run.toml"})["data"]["train"]["bytes"], 2701);
  const Json set = plan_of({"exp/run.toml", "--set", "data.train=beside.txt"});
  EXPECT_EQ(set["data"]["train"]["bytes"], 2700) << "--set is relative to the call";
  fs::remove(path("exp/beside.txt"));
  EXPECT_EQ(plan_of({"exp/run.toml"})["data"]["train"]["bytes"], 2700) << "else the call's";
  fs::remove(path("beside.txt"));
  expect_refused({"train", "exp/run.toml"}, 1,
                 {"exp/run.toml: data.train: no file or folder \"exp/beside.txt\" or "
                  "\"beside.txt\""});
  write_run("exp/run.toml", "train = \"tiny.txt\"\ntokenizer = \"tok\"\n");
  expect_refused({"train", "exp/run.toml"}, 1, {"\"exp/tok\" or \"tok\""});
}

TEST_F(DataFiles, TokenizeTakesFoldersAndPatterns) {
  write_folder();
  const auto ids_of = [&](const std::string& in) {
    const Result result = run({"tokenize", in, "-", "--tokenizer", "bytes"});
    EXPECT_EQ(result.code, 0) << result.err;
    std::vector<Json> lines;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) lines.push_back(Json::parse(line));
    return lines;
  };
  ASSERT_EQ(ids_of("texts").size(), 2u) << "a document a file";
  EXPECT_EQ(ids_of("texts/**/*.pm")[1]["ids"].size(), 2701u);
  const Result said = run({"tokenize", "texts", "all.bin", "--tokenizer", "bytes"});
  EXPECT_NE(said.err.find("texts: 2 files (5.3 KiB); left out 3 "), std::string::npos) << said.err;
  EXPECT_NE(said.out.find("5,400 tokens"), std::string::npos) << said.out;
  (void)run({"tokenize", "*.bin", "copy.bin"});
  EXPECT_EQ(text_of(path("copy.bin")), text_of(path("all.bin"))) << "ids are copied";
}

TEST_F(DataFiles, AValidationTextOfAnotherKindIsSaid) {
  std::string tables;
  for (int i = 0; i < 2000; ++i) tables += fmt::format("{:04x};{};\n", i * 7919 % 65536, i);
  write_text(path("tables.txt"), tables);
  std::string words;
  while (words.size() < 20'000) words += text_of(path("tiny.txt"));
  write_text(path("words.txt"), words);
  write_run("run.toml",
            "train = [\"words.txt\", \"tables.txt\"]\nvalidation_split = \"tail\"\n"
            "validation = 0.2\n");
  const Json tail = plan_of({"run.toml"});
  EXPECT_EQ(tail["data"]["validation"]["is_unlike"], true);
  ASSERT_EQ(tail["notes"].size(), 1u);
  EXPECT_EQ(tail["notes"][0].get<std::string>().find("the validation text is unlike"), 0u);
  const Json few = plan_of({"run.toml", "--set", "data.validation_tokens=500"});
  EXPECT_EQ(few["data"]["validation"]["is_unlike"], true) << "known by all that there was";
  const Json spread = plan_of({"run.toml", "--set", "data.validation_split=spread"});
  EXPECT_EQ(spread["data"]["validation"]["is_unlike"], false) << spread["data"];
}

}  // namespace
}  // namespace ng::e2e
