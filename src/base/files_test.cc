#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/error.h"
#include "base/file_calls.h"

namespace ng {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = join_path(
        testing::TempDir(),
        std::string("files_test_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    remove_all(folder_);
    make_folders(folder_);
  }
  void TearDown() override { remove_all(folder_); }

  [[nodiscard]] std::string in(std::string_view name) const { return join_path(folder_, name); }
  [[nodiscard]] std::vector<std::string> names() const { return list_folder(folder_); }

  std::string folder_;
};

TEST_F(Files, WritesWholeFilesAndReadsThemBack) {
  const std::string content("a\0b\n", 4);
  write_file_atomically(in("x"), "before");
  write_file_atomically(in("x"), content);
  EXPECT_EQ(read_file(in("x"), 4), content);
  const MappedFile mapped(in("x"));
  EXPECT_EQ(mapped.bytes().size(), 4u);
  EXPECT_EQ(mapped.bytes()[3], std::byte{'\n'});
  EXPECT_EQ(names(), std::vector<std::string>{"x"});
  EXPECT_THROW((void)read_file(in("x"), 3), Error);
  const ReadFile reader(in("x"));
  std::byte two[2];
  reader.read(2, two);
  EXPECT_EQ(two[0], std::byte{'b'});
  EXPECT_EQ(reader.size(), 4u);
  EXPECT_THROW(reader.read(3, two), Error);
  write_file_atomically(in("empty"), "");
  EXPECT_EQ(read_file(in("empty"), 10), "");
  EXPECT_TRUE(MappedFile(in("empty")).bytes().empty());
}

TEST_F(Files, NothingAppearsWithoutCommit) {
  {
    FileWriter writer(in("x"));
    writer.write("half");
    FolderWriter folder(in("f"));
    write_file_atomically(join_path(folder.path(), "y"), "y");
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(Files, WritesAtAnyPlace) {
  FileWriter writer(in("x"));
  writer.write("head");
  writer.write_at(8, "89", 2);
  writer.write_at(4, "4567", 4);
  writer.commit();
  EXPECT_EQ(read_file(in("x"), 99), "head456789");
}

/// An id that no process has.
int dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST_F(Files, AFileAbandonedByAKilledProcessGoesWithTheNextWrite) {
  const std::string dead = fmt::format(".tmp-{}-0", dead_process());
  const std::string alive = fmt::format(".tmp-{}-9", ::getpid());
  const int ended = dead_process();
  const std::vector<std::string> others = {"x" + alive,
                                           "y" + dead,
                                           "x.tmp-0-0",
                                           "x.tmp-old",
                                           "x" + dead + ".txt",
                                           fmt::format("x.tmp-{}", ended),
                                           fmt::format("x.tmp-{}-", ended),
                                           fmt::format("x.tmp-{}-notes.txt", ended),
                                           fmt::format("x.tmp-{}-1-5", ended),
                                           fmt::format("x.tmp-{}-05", ended),
                                           fmt::format("x.tmp-0{}-5", ended),
                                           fmt::format("x.tmp-{}-99999999999", ended),
                                           fmt::format("x.tmp--{}-0", ended)};
  for (const std::string& name : others) write_file_atomically(in(name), "");
  write_file_atomically(in("x" + dead), "half");
  write_file_atomically(in("x"), "whole");
  EXPECT_FALSE(is_file(in("x" + dead)));
  for (const std::string& name : others) EXPECT_TRUE(is_file(in(name))) << name;
}

TEST_F(Files, AFolderAbandonedByAKilledProcessGoesWithTheNextOne) {
  const int ended = dead_process();
  const std::string mine = fmt::format("f.tmp-{}-notes", ended);
  const std::string used = fmt::format("f.tmp-{}-7", ended);  // by a process of another machine
  for (const std::string& name : {mine, used, fmt::format("f.tmp-{}-0", ended)})
    make_folders(in(name + "/more"));
  const FolderLock lock(in(used));
  FolderWriter folder(in("f"));
  EXPECT_EQ(names().size(), 3u);
  folder.publish(Replace::always);
  for (const std::string& name : {mine, used, std::string("f")})
    EXPECT_TRUE(is_folder(in(name))) << name;
  EXPECT_EQ(names().size(), 3u);
}

// As one of another machine, whose process is none of here.
TEST_F(Files, AFolderThatIsBeingWrittenStays) {
  FolderWriter folder(in("f"));
  EXPECT_THROW(FolderLock{folder.path()}, Error);
}

TEST_F(Files, NamesMayBeAsLongAsTheyCanBe) {
  const std::string longest(255, 'x'), too_long(256, 'x');
  const std::string dead = std::string(223, 'x') + fmt::format(".tmp-{}-0", dead_process());
  write_file_atomically(in(dead), "half");
  write_file_atomically(in(longest), "whole");
  EXPECT_EQ(names(), std::vector<std::string>{longest});
  EXPECT_THROW(FileWriter{in(too_long)}, Error);  // not only once all is written
}

TEST_F(Files, PublishesWholeFolders) {
  for (const char* content : {"one", "two"}) {
    FolderWriter folder(in("f/"));
    write_file_atomically(join_path(folder.path(), "y"), content);
    folder.publish(Replace::always);
    EXPECT_EQ(read_file(in("f/y"), 9), content);
  }
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
  FolderWriter again(in("f"));
  EXPECT_THROW(again.publish(Replace::never), Error);
}

// What a signal's handler does; more files than the entries of a folder that are read at once.
TEST_F(Files, TemporariesGoWhereASignalEndsTheProcess) {
  FileWriter file(in("x"));
  FolderWriter folder(in("f"));
  for (int i = 0; i < 300; ++i)
    write_file_atomically(join_path(folder.path(), fmt::format("shard-{:040}", i)), "");
  FileWriter inside(join_path(folder.path(), "half"));
  unlink_temporaries();
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(Files, ReplacesFoldersWhereNamesCannotBeSwapped) {
  make_folders(in("f"));
  write_file_atomically(in("f/x"), "old");
  FolderWriter folder(in("f"));
  write_file_atomically(join_path(folder.path(), "x"), "new");
  const FileFaults faults(4, EINVAL);  // after opening, syncing, closing the temporary folder
  folder.publish(Replace::always);
  EXPECT_EQ(read_file(in("f/x"), 9), "new");
  EXPECT_EQ(names(), std::vector<std::string>{"f"});
}

TEST_F(Files, RefusesWhatIsNotARegularFile) {
  EXPECT_THROW(FileWriter{"/dev/null"}, Error);
  EXPECT_THROW(FileWriter{folder_}, Error);
  EXPECT_THROW(MappedFile{folder_}, Error);
  ASSERT_EQ(::mkfifo(in("fifo").c_str(), 0600), 0);
  EXPECT_THROW((void)read_file(in("fifo"), 10), Error);  // and does not wait for a writer
}

TEST_F(Files, NamesPathAndReason) {
  try {
    write_file_atomically(in("absent/x"), "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.parts().place, in("absent/x"));
    EXPECT_EQ(error.parts().problem, "cannot create: No such file or directory");
  }
}

TEST_F(Files, AppendsAndShortens) {
  {
    AppendFile file(in("log"));
    file.append("one\n");
    file.append("two\n");
    EXPECT_EQ(file.bytes(), 8u);
  }
  AppendFile file(in("log"), 4);
  file.append("three\n");
  file.sync();
  EXPECT_EQ(read_file(in("log"), 99), "one\nthree\n");
}

TEST_F(Files, RemovesOnlyTemporaries) {
  const int ended = dead_process();
  const std::string folder = fmt::format("b.tmp-{}-3", ended);
  std::vector<std::string> others = {"a.tmp-x",
                                     "a.tmp-1-0",  // that one runs
                                     "a.tmp-2024-11-05",
                                     "a.tmp--",
                                     fmt::format("a.tmp-{}-05", ended),
                                     fmt::format("a.tmp-{}-5.txt", ended),
                                     fmt::format("theirs.tmp-{}-0", ended)};
  for (const std::string& name : others) write_file_atomically(in(name), "");
  write_file_atomically(in(fmt::format("a.tmp-{}-0", ended)), "");
  write_file_atomically(in(fmt::format("a.tmp-{}-1", ::getpid())), "");
  make_folders(in(folder + "/deep/er"));
  ASSERT_EQ(::symlink(in("a.tmp-x").c_str(), in(folder + "/link").c_str()), 0);
  remove_stale_temporaries(folder_,
                           [](std::string_view name) { return name == "a" || name == "b"; });
  std::sort(others.begin(), others.end());
  EXPECT_EQ(names(), others);
}

TEST_F(Files, NewFoldersGoWhereNothingCame) {
  make_folders(in("old"));
  { const NewFolders folders(in("old/a/b")); }
  EXPECT_TRUE(is_folder(in("old")));
  EXPECT_FALSE(is_folder(in("old/a")));
  {
    const NewFolders folders(in("old/a/b/"));
    EXPECT_TRUE(is_folder(in("old/a/b")));
    write_file_atomically(in("old/a/x"), "");
  }
  EXPECT_EQ(list_folder(in("old/a")), std::vector<std::string>{"x"});
  EXPECT_THROW(NewFolders(in("old/c/" + std::string(300, 'n'))), Error);
  EXPECT_FALSE(is_folder(in("old/c")));
}

TEST_F(Files, ARefusedFolderLeavesNone) {
  { const FolderWriter writer(in("above/f")); }
  EXPECT_FALSE(is_folder(in("above")));
}

TEST_F(Files, AFileIsOursByItsBeginning) {
  EXPECT_NO_THROW(require_own_file(in("x"), "ours", "a page"));
  write_file_atomically(in("x"), "");
  EXPECT_NO_THROW(require_own_file(in("x"), "ours", "a page"));
  write_file_atomically(in("x"), "ours and more");
  EXPECT_NO_THROW(require_own_file(in("x"), "ours", "a page"));
  for (const char* other : {"our", "theirs", " ours"}) {
    write_file_atomically(in("x"), other);
    EXPECT_THROW(require_own_file(in("x"), "ours", "a page"), Error) << other;
  }
  make_folders(in("f"));
  EXPECT_THROW(require_own_file(in("f"), "ours", "a page"), Error);
}

TEST_F(Files, OneLockAtATime) {
  const FolderLock lock(folder_);
  EXPECT_THROW(FolderLock{folder_}, Error);
}

/// Replaces a file and a folder that hold "old" by ones that hold "new".
void replace_both(const std::string& file, const std::string& folder) {
  write_file_atomically(file, "new");
  FolderWriter writer(folder);
  write_file_atomically(join_path(writer.path(), "x"), "new");
  writer.publish(Replace::always);
}

TEST_F(Files, AFailureAtAnyCallLeavesOldOrNew) {
  const auto prepare = [&] {
    remove_all(folder_);
    make_folders(in("f"));
    write_file_atomically(in("f/x"), "old");
    write_file_atomically(in("x"), "old");
  };
  const auto whole = [](const std::string& content) {
    return content == "old" || content == "new";
  };
  prepare();
  int64_t calls = 0;
  {
    const FileFaults counter(0);
    replace_both(in("x"), in("f"));
    calls = counter.calls();
  }
  EXPECT_GE(calls, 15);
  for (const FaultKind kind : {FaultKind::fail_once, FaultKind::fail_from_then_on}) {
    for (int64_t call = 1; call <= calls; ++call) {
      prepare();
      {
        const FileFaults faults(call, ENOSPC, kind);
        try {
          replace_both(in("x"), in("f"));
          ADD_FAILURE() << "call " << call << " failed unnoticed";
        } catch (const Error& error) {
          EXPECT_NE(error.parts().problem.find("No space left"), std::string::npos);
        }
      }
      EXPECT_TRUE(whole(read_file(in("x"), 99))) << call;
      EXPECT_TRUE(whole(read_file(in("f/x"), 99))) << call;
    }
  }
}

TEST_F(Files, AKillAtAnyCallLeavesOldOrNew) {
  for (int64_t call = 1;; ++call) {
    remove_all(folder_);
    make_folders(in("f"));
    write_file_atomically(in("f/x"), "old");
    write_file_atomically(in("x"), "old");
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const FileFaults faults(call, 0, FaultKind::kill);
      replace_both(in("x"), in("f"));
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const std::string file = read_file(in("x"), 99);
    const std::string inner = read_file(in("f/x"), 99);
    EXPECT_TRUE(file == "old" || file == "new") << call;
    EXPECT_TRUE(inner == "old" || inner == "new") << call;
    remove_stale_temporaries(folder_, [](std::string_view) { return true; });
    EXPECT_EQ(names(), (std::vector<std::string>{"f", "x"})) << call;
    if (WIFEXITED(status)) {
      EXPECT_GT(call, 15);
      EXPECT_EQ(inner, "new");
      break;
    }
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
}

}  // namespace
}  // namespace ng
