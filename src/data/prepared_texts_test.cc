#include "data/prepared_texts.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/files.h"
#include "base/program.h"

namespace ng {
namespace {

class PreparedTexts : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = join_path(testing::TempDir(), "prepared_texts_test");
    remove_all(folder_);
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override { remove_all(folder_); }

  std::string folder_;
};

TEST(Program, OutputCodeAndLimit) {
  const ProgramResult result = run_program({"sh", "-c", "printf 'a\\0b'; exit 3"}, 3);
  EXPECT_TRUE(result.found);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, std::string("a\0b", 3));
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}, 9).exit_code, 137);
  EXPECT_FALSE(run_program({"no such program"}, 9).found);
  EXPECT_THROW((void)run_program({"yes"}, 1000), Error);
}

TEST_F(PreparedTexts, KjvIsWrittenOnce) {
  if (!run_program({"bible", "-f", "gen1:1"}, 1 << 20).found) {
    GTEST_SKIP() << "the program bible is not installed (apt-get install bible-kjv)";
  }
  EXPECT_TRUE(is_prepared_text("kjv"));
  const std::string path = prepare_text("kjv");
  EXPECT_EQ(path, folder_ + "/narrowgauge/kjv.txt");
  const std::string text = read_file(path, 10 << 20);
  EXPECT_GT(text.size(), 4'300'000u);
  EXPECT_EQ(text.substr(0, 61), "Ge1:1 In the beginning God created the heaven and the earth.\n");
  const std::string search = std::getenv("PATH");
  ::setenv("PATH", "/nonexistent", 1);
  EXPECT_EQ(prepare_text("kjv"), path);
  ::setenv("PATH", search.c_str(), 1);
  std::string changed = text;
  changed[text.size() / 2] ^= 1;
  for (const std::string& other : {changed, text + "more", text.substr(0, text.size() - 99)}) {
    write_file_atomically(path, other);
    EXPECT_EQ(prepare_text("kjv"), path);
    EXPECT_TRUE(read_file(path, 10 << 20) == text);
  }
  remove_all(path + ".xxh3_128");
  write_file_atomically(path, changed);
  EXPECT_EQ(prepare_text("kjv"), path);
  EXPECT_TRUE(read_file(path, 10 << 20) == text);
}

TEST_F(PreparedTexts, SaysWhatIsMissing) {
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/nonexistent", 1);
  try {
    (void)prepare_text("kjv");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "kjv: the program \"bible\" is not installed: apt-get install bible-kjv");
  }
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace ng
