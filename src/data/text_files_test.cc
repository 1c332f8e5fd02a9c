#include "data/text_files.h"

#include <filesystem>

#include "base/json.h"
#include "data/data_origin.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

class TextFiles : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    for (const char* folder : {"", "sub", "sub/deep", ".git"}) make_folders(in(folder));
  }
  void write(std::string_view name, std::string_view content) const {
    write_file_atomically(in(name), content);
  }
  [[nodiscard]] FoundTexts find(const std::string& name,
                                BinaryMeans binary = BinaryMeans::nul) const {
    return find_texts({in(name)}, {"run.toml", "data.train"}, binary);
  }
  /// Without this test's folder.
  [[nodiscard]] std::vector<std::string> short_names(const std::vector<std::string>& paths) const {
    std::vector<std::string> names;
    for (const std::string& path : paths) names.push_back(path.substr(folder_.size() + 1));
    return names;
  }
  [[nodiscard]] std::vector<std::string> read(const std::string& name) const {
    return short_names(find(name).paths());
  }
  [[nodiscard]] std::vector<std::string> left_out(const FoundTexts& found, LeftOut reason) const {
    std::vector<std::string> paths;
    for (const LeftOutFile& left : found.left_out)
      if (left.reason == reason) paths.push_back(left.file.path);
    return short_names(paths);
  }
};

using Names = std::vector<std::string>;

TEST_F(TextFiles, AFolderMeansItsTxtAndSaysWhatItLeavesOut) {
  write("b.txt", "12345");
  write("sub/a.txt", "123");
  write(".git/h.txt", "1");
  write(".h.txt", "1");
  write("sub/deep/m.pm", "1234567");
  write("c.pm", "12");
  write("README", "1");
  const FoundTexts found = find(".");
  EXPECT_TRUE(found.by_pattern);
  EXPECT_EQ(short_names(found.paths()), (Names{"./b.txt", "./sub/a.txt"})) << "none that is hidden";
  EXPECT_EQ(found.read[0].bytes, 5);
  EXPECT_EQ(left_out(found, LeftOut::pattern),
            (Names{"./.h.txt", "./README", "./c.pm", "./sub/deep/m.pm"}));
  EXPECT_EQ(text_of(found), "2 files (8 B); left out 4 (11 B): 2 .pm, 1 .txt, 1 other by pattern");
  EXPECT_EQ(summary_of(found)["left_out"]["pattern"],
            Json::parse(R"({"files": 4, "bytes": 11, "endings": [{"ending": ".pm", "files": 2},
                            {"ending": ".txt", "files": 1}]})"));
  EXPECT_EQ(list_of(found)["left_out"][3]["reason"], "pattern");
  EXPECT_EQ(list_of(found)["left_out"][3]["bytes"], 7);
  EXPECT_EQ(short_names(find("./**/*.txt").paths()), short_names(found.paths()));
}

TEST_F(TextFiles, TwoStarsCrossFoldersAndOneDoesNot) {
  for (const char* name : {"a.pm", "sub/b.pm", "sub/deep/c.pm", ".git/d.pm", ".e.pm", "f.txt"})
    write(name, "x");
  EXPECT_EQ(read("*.pm"), (Names{"a.pm"}));
  EXPECT_EQ(read("*/*.pm"), (Names{"sub/b.pm"}));
  EXPECT_EQ(read("**/*.pm"), (Names{"a.pm", "sub/b.pm", "sub/deep/c.pm"}));
  EXPECT_EQ(read("**/deep/*"), (Names{"sub/deep/c.pm"}));
  EXPECT_EQ(read("sub/**"), (Names{"sub/b.pm", "sub/deep/c.pm"}));
  EXPECT_EQ(read("s?b/[a-c].pm"), (Names{"sub/b.pm"}));
  EXPECT_EQ(read(".*.pm"), (Names{".e.pm"}));
  EXPECT_EQ(left_out(find("**/*.pm"), LeftOut::pattern), (Names{".e.pm", "f.txt"}));
}

TEST_F(TextFiles, LinksBackAreNotFollowed) {
  write("sub/a.txt", "x");
  std::filesystem::create_directory_symlink(folder_, in("sub/back"));
  EXPECT_EQ(read("**/*.txt"), (Names{"sub/a.txt"}));
  EXPECT_EQ(read("sub"), (Names{"sub/a.txt"}));
}

TEST_F(TextFiles, WhatOneNameLeavesOutAnotherMayMean) {
  for (const char* name : {"a.pl", "b.pm", "c.txt", "d.md"}) write(name, "x");
  std::filesystem::create_symlink("c.txt", in("link.rst"));
  const FoundTexts found =
      find_texts({in("*.pl"), in("*.pm"), in("c.txt")}, {"run.toml", "data.train"}, {});
  EXPECT_EQ(short_names(found.paths()), (Names{"a.pl", "b.pm", "c.txt"}));
  EXPECT_EQ(left_out(found, LeftOut::pattern), (Names{"d.md"})) << "once, and none that is read";
  EXPECT_EQ(text_of(found), "3 files (3 B); left out 1 (1 B): 1 .md by pattern");
}

TEST_F(TextFiles, FilesAreKnownByAnyName) {
  for (const char* name : {"a.txt", "b.txt", "sub/c.txt", "sub/d.txt"}) write(name, "x");
  std::filesystem::create_symlink(in("a.txt"), in("sub/link.txt"));
  std::filesystem::create_hard_link(in("b.txt"), in("sub/hard.txt"));
  const FoundTexts train = find("*.txt"), sub = find("sub");
  EXPECT_TRUE(repeated_files(train).empty());
  EXPECT_EQ(shared_files(sub, train),
            (Names{fmt::format("{0}/sub/hard.txt ({0}/b.txt)", folder_),
                   fmt::format("{0}/sub/link.txt ({0}/a.txt)", folder_)}));
  EXPECT_EQ(shared_files(train, train), (Names{in("a.txt"), in("b.txt")}));
  const FoundTexts twice =
      find_texts({in("a.txt"), in("sub"), in("a.txt")}, {"run.toml", "data.train"}, {});
  EXPECT_EQ(std::ssize(twice.read), 6) << "what is named again is read again";
  EXPECT_EQ(repeated_files(twice), (Names{fmt::format("{0}/sub/link.txt ({0}/a.txt)", folder_)}));
}

TEST_F(TextFiles, WhatIsTrainedOnAndValidatesIsSaid) {
  for (const char* name : {"a.txt", "b.txt", "c.txt"}) write(name, "x");
  using From = ValidationFrom;
  const auto warned = [&](const Names& train, const Names& validation, From from) {
    const auto found = [&](const Names& names) {
      FoundTexts texts;
      for (const std::string& name : names) texts.read.push_back(find(name).read.front());
      return texts;
    };
    return warnings_of({.train = found(train), .validation = found(validation), .from = from});
  };
  EXPECT_TRUE(warned({"a.txt"}, {}, From::spread).empty());
  EXPECT_TRUE(warned({"a.txt"}, {"b.txt"}, From::files).empty());
  EXPECT_EQ(warned({"a.txt", "b.txt"}, {"a.txt"}, From::files),
            (Names{"the validation loss is that of texts that are trained on: data.train has 1 "
                   "file of data.validation too: " +
                   in("a.txt")}));
  EXPECT_EQ(warned({"a.txt", "b.txt"}, {"a.txt", "b.txt", "c.txt"}, From::files).front(),
            fmt::format("the validation loss is in part that of texts that are trained on: "
                        "data.train has 2 files of data.validation too: {0}/a.txt, {0}/b.txt",
                        folder_));
  EXPECT_EQ(warned({"a.txt", "b.txt", "a.txt"}, {"c.txt"}, From::files),
            (Names{"data.train has 1 file more than once, and reads it as often: " + in("a.txt")}));
  EXPECT_EQ(warned({"a.txt", "b.txt", "b.txt", "a.txt"}, {}, From::spread).front(),
            fmt::format("data.train has 2 files more than once, and reads them as often; what one "
                        "copy validates the other trains on: {0}/b.txt, {0}/a.txt",
                        folder_));
}

TEST_F(TextFiles, BinaryFilesAreLeftOutUnlessNamed) {
  write("a.txt", "text");
  write("b.txt", std::string_view("te\0xt", 5));
  write("c.txt", "caf\xE9");
  write("d.jsonl", std::string_view("\0", 1));
  const FoundTexts bytes = find("*");
  EXPECT_EQ(short_names(bytes.paths()), (Names{"a.txt", "c.txt", "d.jsonl"}));
  EXPECT_EQ(left_out(bytes, LeftOut::binary), (Names{"b.txt"}));
  EXPECT_EQ(left_out(find("*", BinaryMeans::no_utf8), LeftOut::binary), (Names{"b.txt", "c.txt"}));
  EXPECT_EQ(short_names(find("*", BinaryMeans::nothing).paths()).size(), 4u);
  EXPECT_EQ(read("b.txt"), (Names{"b.txt"})) << "named by itself";
  EXPECT_FALSE(find("b.txt").by_pattern);
  EXPECT_EQ(summary_of(bytes)["left_out"]["binary"],
            Json({{"files", 1}, {"bytes", 5}, {"first", in("b.txt")}}));
  EXPECT_EQ(text_of(bytes), "3 files (9 B); left out 1 (5 B): 1 binary (" + in("b.txt") + ")");
  EXPECT_NE(error_of([&] { (void)find("b*"); }).find("matches 1 file, all binary"),
            std::string::npos);
}

TEST(FilesText, OfAnOlderSummaryNamesNoEndingsAndNoFile) {
  EXPECT_EQ(files_text(Json::parse(R"({"files": 5, "bytes": 2000, "left_out": {
              "pattern": {"files": 636, "bytes": 3000}, "binary": {"files": 1, "bytes": 72}}})")),
            "5 files (2.0 KiB); left out 637 (3.0 KiB): 636 by pattern, 1 binary");
}

TEST_F(TextFiles, WhatIsNotThereIsSaidWithWhatIs) {
  for (const char* name : {"a.pm", "sub/b.pm", "c.pl"}) write(name, "x");
  EXPECT_EQ(error_of([&] { (void)find("."); }),
            fmt::format("run.toml: data.train: \"{0}/.\" holds no .txt file: name the files: "
                        "\"{0}/./**/*.pm\" means its 2 .pm",
                        folder_));
  const auto said = error_of([] {
    (void)find_texts({"none.txt"}, {"exp/run.toml", "data.train", "exp"}, BinaryMeans::nul);
  });
  EXPECT_EQ(said.find("exp/run.toml: data.train: no file or folder \"exp/none.txt\" or "
                      "\"none.txt\": a path, "),
            0u)
      << said;
  EXPECT_TRUE(is_there(in("a.pm")) && is_there(in("**/b.*")) && is_there(in("sub")));
  EXPECT_FALSE(is_there(in("*.txt")) || is_there(in("none/*.pm")));
}

}  // namespace
}  // namespace ng
