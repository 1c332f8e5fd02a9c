// An output that is a symbolic link is written where that leads, and names beside an output stay.
#include <algorithm>

#include "program.h"

namespace ng::e2e {
namespace {

class LinkedOutputs : public Program {
 protected:
  LinkedOutputs() { fs::create_directory(path("disk")); }
  [[nodiscard]] std::vector<std::string> names(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path(folder)))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  [[nodiscard]] std::vector<std::string> train(const std::string& out) const {
    return {"train", "tiny.toml", "--set", "train.steps=2", "--out", out};
  }
};

/// A word "OUT" is the output.
const std::vector<std::string> kWriters[] = {
    {"tokenize", "tiny.txt", "OUT", "--tokenizer", "bytes"},
    {"detokenize", "ids.bin", "OUT", "--tokenizer", "bytes"},
    {"tokenizer", "train", "tiny.txt", "OUT", "--vocab", "260", "--pattern", "gpt2"},
    {"cast", "run/model/model.safetensors", "OUT", "--format", "mxfp4"},
    {"export", "run/model", "OUT", "--to", "gguf", "--type", "f32"},
    {"export", "run/model", "OUT", "--to", "hf", "--type", "bf16"},
    {"import", "run.gguf", "OUT"},
    {"import", "run.gguf", "OUT.safetensors"},
};

std::vector<std::string> words_for(std::vector<std::string> words, const std::string& out) {
  for (std::string& word : words)
    if (word.starts_with("OUT")) word = out + word.substr(3);
  return words;
}

TEST_F(LinkedOutputs, AreWrittenWhereTheyLead) {
  (void)run_well(train("run"));
  (void)run_well({"tokenize", "tiny.txt", "ids.bin", "--tokenizer", "bytes"});
  (void)run_well({"export", "run/model", "run.gguf", "--to", "gguf", "--type", "f32"});
  for (const std::vector<std::string>& writer : kWriters) {
    SCOPED_TRACE(writer.front() + " " + writer.back());
    const std::string ending = writer.back().ends_with(".safetensors") ? ".safetensors" : "";
    fs::create_directory(path("in"));
    fs::create_symlink("../disk/x" + ending, path("in/out" + ending));
    for (int i = 0; i < 2; ++i) {  // of the first the link leads to nothing yet
      (void)run(words_for(writer, "in/out"));
      EXPECT_TRUE(fs::is_symlink(path("in/out" + ending)));
      EXPECT_EQ(names("disk"), std::vector<std::string>{"x" + ending});
      EXPECT_EQ(names("in"), std::vector<std::string>{"out" + ending});
    }
    (void)run_well(words_for(writer, "plain"));
    if (fs::is_directory(path("plain"))) {
      EXPECT_EQ(names("disk/x"), names("plain"));
    }
    EXPECT_EQ(text_of(path("disk/x" + ending)), text_of(path("plain" + ending)));
    for (const char* made : {"in", "disk/x", "plain"}) fs::remove_all(path(made + ending));
    fs::remove_all(path("in"));
  }
}

TEST_F(LinkedOutputs, OfARunAreWrittenWhereTheyLead) {
  fs::create_symlink("disk/run", path("run"));
  fs::create_directories(path("disk/elsewhere"));
  (void)run_well(train("run"));
  EXPECT_TRUE(fs::is_symlink(path("run")));
  EXPECT_TRUE(fs::exists(path("disk/run/model/config.json")));
  for (const char* name : {"metrics.jsonl", "run.toml", "report.html", "model"}) {
    fs::rename(path("run") / name, path("disk/elsewhere") / name);
    fs::create_symlink(fs::path("../elsewhere") / name, path("disk/run") / name);
  }
  std::vector<std::string> more = train("run");
  more.insert(more.end(), {"--set", "train.steps=3", "--resume"});
  EXPECT_EQ(run(more).code, 0);
  for (const char* name : {"metrics.jsonl", "run.toml", "report.html", "model"})
    EXPECT_TRUE(fs::is_symlink(path("disk/run") / name)) << name;
  EXPECT_NE(text_of(path("disk/elsewhere/metrics.jsonl")).find("\"step\":3"), std::string::npos);
  EXPECT_NE(text_of(path("disk/elsewhere/run.toml")).find("train.steps = 3"), std::string::npos);
  EXPECT_EQ(names("disk/elsewhere").size(), 4U);
}

TEST_F(LinkedOutputs, ThatLeadBackOrNowhereAreRefused) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  fs::create_symlink("gone/x", path("c"));
  fs::create_symlink("disk", path("d"));
  const auto tokenize = [](const std::string& out) {
    return std::vector<std::string>{"tokenize", "tiny.txt", out, "--tokenizer", "bytes"};
  };
  expect_refused(tokenize("a"), 1, {"a: is a symbolic link that leads back to itself"});
  expect_refused(train("a"), 1, {"a: is a symbolic link that leads back to itself"});
  expect_refused(tokenize("c"), 1, {"c: no folder gone"});
  expect_refused(tokenize("d"), 1, {"d: is a folder"});
  fs::create_symlink("tiny.txt", path("e"));
  expect_refused(tokenize("e"), 1, {"e: is the same file as tiny.txt"});
  EXPECT_TRUE(names("disk").empty());
}

TEST_F(LinkedOutputs, NamesBesideAnOutputStay) {
  const std::vector<std::string> mine = {"o.bin.tmp-2024-notes.txt", "o.bin.tmp-2024-11-05",
                                         "o.bin.tmp-2024", "o.bin.tmp-4000000-0.bak", "o.bin.old"};
  for (const std::string& name : mine) write_text(path("disk/" + name), "mine");
  write_text(path("disk/o.bin.tmp-4194305-0"), "half");  // of a process that no Linux has
  (void)run_well({"tokenize", "tiny.txt", "disk/o.bin", "--tokenizer", "bytes"});
  for (const std::string& name : mine) EXPECT_EQ(text_of(path("disk/" + name)), "mine") << name;
  EXPECT_EQ(names("disk").size(), mine.size() + 1) << "what a killed process left is gone";
}

}  // namespace
}  // namespace ng::e2e
