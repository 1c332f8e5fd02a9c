#include "io/checkpoint_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/file_calls.h"

namespace ng::io {
namespace {

class CheckpointFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = join_path(testing::TempDir(),
                        std::string("checkpoint_files_test_") +
                            testing::UnitTest::GetInstance()->current_test_info()->name());
    remove_all(folder_);
  }
  void TearDown() override { remove_all(folder_); }

  std::string write(int64_t step, const std::string& content) const {
    CheckpointWriter writer(folder_, step);
    writer.write_text("state.json", content);
    writer.write_text("weights.safetensors", std::string(1000, 'w') + content);
    return writer.publish();
  }
  [[nodiscard]] std::optional<CheckpointEntry> newest(std::vector<std::string>* skipped) const {
    return newest_whole_checkpoint(folder_,
                                   [&](const std::string& why) { skipped->push_back(why); });
  }

  std::string folder_;
};

TEST_F(CheckpointFiles, NewestComesFirst) {
  std::vector<std::string> skipped;
  EXPECT_FALSE(newest(&skipped));
  for (const int64_t step : {9, 100, 20}) write(step, "x");
  write_file_atomically(join_path(folder_, "step-12"), "not a checkpoint's name");
  const std::vector<CheckpointEntry> all = list_checkpoints(folder_);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].path, join_path(folder_, "step-00000100"));
  EXPECT_EQ(all[2].step, 9);
  EXPECT_EQ(newest(&skipped)->step, 100);
  EXPECT_TRUE(skipped.empty());
}

TEST_F(CheckpointFiles, AnyDamageIsNamedAndSkipped) {
  const std::string good = write(1, "good");
  struct Damage {
    std::string says;
    std::function<void(const std::string& path)> act;
  };
  const Damage kCases[] = {
      {"state.json: its checksum differs",
       [](const std::string& path) { write_file_atomically(path + "/state.json", "bae"); }},
      {"state.json: has 2 bytes instead of 3",
       [](const std::string& path) { write_file_atomically(path + "/state.json", "ba"); }},
      {"weights.safetensors: missing",
       [](const std::string& path) { remove_all(path + "/weights.safetensors"); }},
      {"manifest.json: missing",
       [](const std::string& path) { remove_all(path + "/manifest.json"); }},
      {"manifest.json: not valid JSON",
       [](const std::string& path) { write_file_atomically(path + "/manifest.json", "{"); }},
      {"manifest.json: files: missing",
       [](const std::string& path) {
         write_file_atomically(path + "/manifest.json",
                               R"({"schema":"narrowgauge-checkpoint-1","step":2})");
       }},
      {"manifest.json: names no files",
       [](const std::string& path) {
         remove_all(path + "/state.json");
         remove_all(path + "/weights.safetensors");
         write_file_atomically(path + "/manifest.json",
                               R"({"schema":"narrowgauge-checkpoint-1","step":2,"files":{}})");
       }},
      {"extra: is not in the manifest",
       [](const std::string& path) { write_file_atomically(path + "/extra", ""); }},
  };
  for (const Damage& damage : kCases) {
    damage.act(write(2, "bad"));
    std::vector<std::string> skipped;
    EXPECT_EQ(newest(&skipped)->path, good);
    ASSERT_EQ(skipped.size(), 1u) << damage.says;
    EXPECT_NE(skipped[0].find("step-00000002/" + damage.says), std::string::npos) << skipped[0];
  }
}

TEST_F(CheckpointFiles, WhatCannotBeReadIsNotTakenForDamaged) {
  write(1, "one");
  write(2, "two");
  std::vector<std::string> skipped;
  int64_t calls = 0;
  {
    const FileFaults counter(0);
    (void)newest(&skipped);
    calls = counter.calls();
  }
  EXPECT_GE(calls, 3);
  for (int64_t call = 1; call <= calls; ++call) {
    const FileFaults faults(call, EACCES);
    EXPECT_THROW((void)newest(&skipped), SystemError) << call;
  }
  EXPECT_TRUE(skipped.empty());
}

TEST_F(CheckpointFiles, ADamagedOneIsSetAsideAndLeftAlone) {
  for (int i = 0; i < 2; ++i) {  // the second takes the first one's place
    write(7, "bad");
    set_aside({.step = 7, .path = join_path(folder_, "step-00000007")});
  }
  write(1, "one");
  prune_checkpoints(folder_, 1);
  EXPECT_EQ(list_folder(folder_),
            (std::vector<std::string>{"step-00000001", "step-00000007.damaged"}));
  std::vector<std::string> skipped;
  EXPECT_EQ(newest(&skipped)->step, 1);
  EXPECT_TRUE(skipped.empty());
}

TEST_F(CheckpointFiles, PruningKeepsTheNewest) {
  for (int64_t step = 1; step <= 5; ++step) write(step, "x");
  make_folders(join_path(folder_, fmt::format("step-00000006.tmp-{}-0/half", ::getpid())));
  prune_checkpoints(folder_, 2);
  EXPECT_EQ(list_folder(folder_), (std::vector<std::string>{"step-00000004", "step-00000005"}));
}

// They neither go nor push checkpoints out.
TEST_F(CheckpointFiles, WhatHasTheNameOfACheckpointAndIsNoneStays) {
  const auto file = [&](const char* name) { return join_path(folder_, name); };
  make_folders(file("step-00000001"));
  write_file_atomically(file("step-00000001/notes.txt"), "mine");
  write_file_atomically(file("step-00000009"), "mine");
  for (int64_t step = 2; step <= 4; ++step) write(step, "x");
  prune_checkpoints(folder_, 2);
  EXPECT_EQ(list_folder(folder_), (std::vector<std::string>{"step-00000001", "step-00000003",
                                                            "step-00000004", "step-00000009"}));
  write(1, "x");
  EXPECT_EQ(read_file(file("step-00000001.damaged/notes.txt"), 9), "mine") << "set aside";
  EXPECT_THROW(write(9, "x"), Error);
  EXPECT_EQ(read_file(file("step-00000009"), 9), "mine");
}

// Who moved one to another disk put the link there.
TEST_F(CheckpointFiles, ACheckpointBehindALinkStays) {
  const std::string elsewhere = join_path(folder_, "elsewhere");
  for (int64_t step = 1; step <= 3; ++step) write(step, "x");
  move_path(join_path(folder_, "step-00000001"), elsewhere);
  std::filesystem::create_symlink("elsewhere", join_path(folder_, "step-00000001"));
  prune_checkpoints(folder_, 1);
  EXPECT_EQ(list_folder(folder_),
            (std::vector<std::string>{"elsewhere", "step-00000001", "step-00000003"}));
  EXPECT_NO_THROW(verify_checkpoint({.step = 1, .path = join_path(folder_, "step-00000001")}));
}

TEST_F(CheckpointFiles, AFailureAtAnyCallLeavesAWholeCheckpoint) {
  write(1, "one");
  int64_t calls = 0;
  {
    const FileFaults counter(0);
    write(2, "two");
    prune_checkpoints(folder_, 1);
    calls = counter.calls();
  }
  EXPECT_GT(calls, 20);
  for (int64_t call = 1; call <= calls; ++call) {
    remove_all(folder_);
    write(1, "one");
    {
      const FileFaults faults(call, EIO);
      EXPECT_THROW((write(2, "two"), prune_checkpoints(folder_, 1)), Error) << call;
    }
    std::vector<std::string> skipped;
    const std::optional<CheckpointEntry> found = newest(&skipped);
    ASSERT_TRUE(found) << call;
    EXPECT_EQ(read_file(found->path + "/state.json", 9), found->step == 1 ? "one" : "two");
  }
}

}  // namespace
}  // namespace ng::io
