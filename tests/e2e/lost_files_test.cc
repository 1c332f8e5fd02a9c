// What a command did not write itself it does not replace, and what it reads it does not write.
#include "base/json.h"
#include "program.h"

namespace ng::e2e {
namespace {

class LostFiles : public Program {
 protected:
  /// Refused in one line that names `path`, which stays what it is.
  void expect_kept(const std::vector<std::string>& args, const std::string& file,
                   const std::string& word) const {
    const std::string before = text_of(path(file));
    expect_refused(args, 1, {file, word});
    EXPECT_EQ(text_of(path(file)), before) << file;
  }
  [[nodiscard]] std::vector<std::string> train(const std::string& out,
                                               std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"train", "tiny.toml", "--set", "train.steps=2", "--out", out});
    return more;
  }
  void write_foreign(const std::string& file) const {
    fs::create_directories(path(file).parent_path());
    write_text(path(file), "mine");
  }
};

TEST_F(LostFiles, TheRunFileIsNotWrittenOver) {
  fs::create_directory(path("d"));
  write_text(path("d/run.toml"), "# Thursday's\n" + text_of(path("tiny.toml")));
  expect_kept({"train", "d/run.toml", "--out", "d"}, "d/run.toml", "is the run file");
  fs::create_hard_link(path("d/run.toml"), path("other.toml"));
  expect_kept({"train", "other.toml", "--out", "d"}, "d/run.toml", "is the run file");
  expect_kept(train("d"), "d/run.toml", "not known as a run's");
  EXPECT_FALSE(fs::exists(path("d/metrics.jsonl")));
}

TEST_F(LostFiles, AFileThatARunWroteSaysHowItGoesOn) {
  (void)run_well(train("d"));
  EXPECT_EQ(run({"train", "d/run.toml", "--set", "train.steps=3", "--out", "d", "--resume"}).code,
            0);
  EXPECT_NE(text_of(path("d/run.toml")).find("train.steps = 3"), std::string::npos);
  write_text(path("d/run.toml"), text_of(path("d/run.toml")) + "# mine\n");
  expect_kept({"train", "d/run.toml", "--out", "d", "--resume"}, "d/run.toml", "is the run file");
}

TEST_F(LostFiles, OfNoRunAreKept) {
  for (const char* name :
       {"run.toml", "metrics.jsonl", "metrics.jsonl.before-resume", "report.html", "checkpoints",
        "model", "model/notes.txt", "model/config.json"}) {
    write_foreign(std::string("e/") + name);
    expect_refused(train("e"), 1, {"e/"});
    EXPECT_EQ(text_of(path(std::string("e/") + name)), "mine") << name;
    EXPECT_EQ(std::distance(fs::directory_iterator(path("e")), fs::directory_iterator()), 1);
    fs::remove_all(path("e"));
  }
}

TEST_F(LostFiles, InARunsFolderAreKept) {
  write_foreign("f/notes.txt");
  write_foreign("f/notes.tmp-1");  // like a temporary name, but of nothing that a run writes
  (void)run_well(train("f"));
  write_foreign("f/model/notes.txt");
  expect_kept(train("f", {"--resume"}), "f/model", "notes.txt");
  for (const char* name : {"f/notes.txt", "f/notes.tmp-1", "f/model/notes.txt"})
    EXPECT_EQ(text_of(path(name)), "mine") << name;
}

TEST_F(LostFiles, BesideARunsMetricsAreKept) {
  const std::string replaced = "f/metrics.jsonl.before-resume";
  (void)run_well(train("f"));
  for (const char* foreign : {"mine", "mine\n", "{\"mine\": 1}\n", "[1]\n"}) {
    write_text(path(replaced), foreign);
    expect_kept(train("f", {"--resume"}), replaced, "not known as a run's");
  }
  fs::remove(path(replaced));
  write_foreign(replaced + "/notes.txt");
  expect_refused(train("f", {"--resume"}), 1, {replaced, "is a folder"});
  EXPECT_EQ(text_of(path(replaced + "/notes.txt")), "mine");
  fs::remove_all(path(replaced));
  fs::copy(path("f/metrics.jsonl"), path(replaced));  // as a run leaves it that is killed
  expect_kept(train("f", {"--resume", "--set", "data.train=" + replaced}), replaced, "data.train");
  (void)run_well(train("f", {"--resume"}));
  EXPECT_FALSE(fs::exists(path(replaced)));
}

TEST_F(LostFiles, WhatARunReadsIsNotWritten) {
  (void)run_well(train("g", {"--set", "train.steps=1"}));
  const auto resume = [&](const std::string& setting) {
    return std::vector<std::string>{"train",         "tiny.toml", "--set", setting,   "--set",
                                    "train.steps=2", "--out",     "g",     "--resume"};
  };
  expect_kept(resume("data.train=g/report.html"), "g/report.html", "data.train");
  expect_kept(resume("data.validation=\"g/report.html\""), "g/report.html", "data.validation");
  expect_kept(resume("data.tokenizer=g/model"), "g/model", "data.tokenizer");
  fs::create_directory(path("h"));
  fs::copy(path("g/model"), path("h/model"));
  write_text(path("init.toml"),
             "model.init = 'h/model'\ndata.train = 'tiny.txt'\n"
             "train = { steps = 1, batch = 1 }\n");
  expect_refused({"train", "init.toml", "--out", "h"}, 1, {"h/model: model.init: is read"});
}

TEST_F(LostFiles, OfAComparison) {
  const std::vector<std::string> args = {"compare", "tiny.toml", "--recipes", "fp32,bf16",
                                         "--seeds", "1",         "--set",     "train.steps=1",
                                         "--out",   "c"};
  for (const char* name : {"c/report.html", "c/compare.csv", "c/compare.json", "c/compare.md",
                           "c/bf16-seed1/run.toml", "c/bf16-seed1/metrics.jsonl.before-resume",
                           "c/bf16-seed1/result.json", "c/bf16-seed1/model/x"}) {
    write_foreign(name);
    const Result result = run(args);
    EXPECT_EQ(result.code, 1) << name;
    EXPECT_NE(result.err.find("c/"), std::string::npos) << result.err;
    EXPECT_EQ(text_of(path(name)), "mine");
    EXPECT_FALSE(fs::exists(path("c/fp32-seed1"))) << "refused before the first run: " << name;
    fs::remove_all(path("c"));
  }
  (void)run_well(args);
  (void)run_well(args);
}

TEST_F(LostFiles, OfAStudy) {
  for (const char* name : {"hadamard.csv", "hadamard.json", "index.html"}) {
    write_foreign(std::string("s/") + name);
    expect_kept({"study", "hadamard", "--out", "s"}, std::string("s/") + name, "a study's");
    fs::remove_all(path("s"));
  }
}

TEST_F(LostFiles, OfATrace) {
  const std::string model = golden("models/llama_tiny");
  const std::string tokens = model + "/reference.safetensors";
  write_foreign("out");
  expect_kept({"trace", model, tokens, "out"}, "out", "not known as a trace");
  expect_refused({"trace", model, tokens, "no/out"}, 1, {"no/out", "no folder"});
}

TEST_F(LostFiles, OfAProduct) {
  const std::string model = golden("models/llama_tiny");
  const std::string weight = model + "/model.safetensors:model.embed_tokens.weight";
  write_foreign("out");
  expect_kept({"matmul", weight, weight, "--out", "out"}, "out", "not known as a product");
  expect_refused({"matmul", weight, weight, "--out", "no/out"}, 1, {"no/out", "no folder"});
  (void)run_well({"matmul", weight, weight, "--out", "new"});
  (void)run_well({"matmul", weight, weight, "--out", "new"});  // its own again
}

}  // namespace
}  // namespace ng::e2e
