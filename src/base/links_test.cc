// What is written where a symbolic link stands.
#include <sys/stat.h>
#include <unistd.h>

#include "base/output_file.h"
#include "support/scratch_folder.h"

namespace ng {
namespace {

bool any_file(const std::string& /*path*/) { return true; }

class Links : public ScratchFolder {
 protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    make_folders(in("disk"));
  }
  void link(std::string_view name, const std::string& to) const {
    ASSERT_EQ(::symlink(to.c_str(), in(name).c_str()), 0);
  }
  [[nodiscard]] bool is_link(std::string_view name) const {
    struct stat info {};
    return ::lstat(in(name).c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  }
  [[nodiscard]] std::vector<std::string> names(std::string_view name) const {
    return list_folder(in(name));
  }
};

TEST_F(Links, LeadToWhatIsWritten) {
  write_file_atomically(in("disk/x"), "old");
  link("plain", in("disk/x"));
  link("relative", "disk/x");
  link("disk/up", "../relative");
  for (const char* name : {"plain", "relative", "disk/up"}) {
    write_file_atomically(in(name), name);
    EXPECT_EQ(read_file(in("disk/x"), 99), name);
    EXPECT_TRUE(is_link(name)) << name;
  }
  EXPECT_EQ(names("disk"), (std::vector<std::string>{"up", "x"}));
  EXPECT_EQ(names(""), (std::vector<std::string>{"disk", "plain", "relative"}));
}

// On the disk that it shall come to lie on: a rename to another one would fail.
TEST_F(Links, HaveTheTemporaryFileBesideWhatTheyMean) {
  link("x", "disk/x");
  FileWriter writer(in("x"));
  EXPECT_EQ(names("disk").size(), 1u);
  EXPECT_EQ(names(""), (std::vector<std::string>{"disk", "x"}));
  writer.commit();
  EXPECT_EQ(names("disk"), std::vector<std::string>{"x"}) << "which was not there";
}

TEST_F(Links, LeadToFolders) {
  make_folders(in("disk/f"));
  write_file_atomically(in("disk/f/old"), "");
  link("f", "disk/f");
  link("new", "disk/new");
  for (const char* name : {"f/", "new"}) {
    FolderWriter folder(in(name));
    write_file_atomically(join_path(folder.path(), "y"), "y");
    EXPECT_EQ(names(""), (std::vector<std::string>{"disk", "f", "new"}));
    folder.publish(Replace::always);
  }
  EXPECT_EQ(names("disk"), (std::vector<std::string>{"f", "new"}));
  EXPECT_EQ(names("disk/f"), std::vector<std::string>{"y"});
  EXPECT_EQ(names("disk/new"), std::vector<std::string>{"y"});
  EXPECT_TRUE(is_link("f") && is_link("new"));
}

TEST_F(Links, LeadToFoldersToBeMade) {
  link("run", "disk/a/b");
  { const NewFolders folders(in("run/c")); }
  EXPECT_TRUE(names("disk").empty());
  make_folders(in("run/c"));
  EXPECT_EQ(names("disk/a/b"), std::vector<std::string>{"c"});
  EXPECT_TRUE(is_link("run"));
}

TEST_F(Links, ThatLeadNowhereAreRefusedInOneLine) {
  link("round", "about");
  link("about", "round");
  link("gone", "no/where");
  for (const auto& act : {+[](const std::string& at) { FileWriter file(at); },
                          +[](const std::string& at) { FolderWriter folder(at); },
                          +[](const std::string& at) { make_folders(at); },
                          +[](const std::string& at) { require_target(at, "one", any_file); }}) {
    EXPECT_EQ(error_of([&] { act(in("round")); }),
              in("round") + ": is a symbolic link that leads back to itself: a file or a folder");
  }
  EXPECT_EQ(error_of([&] { write_file_atomically(in("gone"), ""); }),
            fmt::format("{} -> {}: cannot create: No such file or directory: check the path",
                        in("gone"), in("no/where")));
  EXPECT_EQ(error_of([&] { require_target(in("gone"), "one", any_file); }),
            fmt::format("{}: no folder {}: the name of a new file", in("gone"), in("no")));
  EXPECT_EQ(names(""), (std::vector<std::string>{"about", "disk", "gone", "round"}));
}

TEST_F(Links, ToAFolderAreNoFiles) {
  link("f", "disk");
  EXPECT_EQ(error_of([&] { write_file_atomically(in("f"), ""); }),
            in("f") + ": is a folder: give the name of a file to write");
  write_file_atomically(in("disk/x"), "mine");
  link("x", "disk/x");
  EXPECT_NE(error_of([&] { FolderWriter(in("x")).publish(Replace::always); }), "accepted");
  EXPECT_EQ(read_file(in("disk/x"), 9), "mine");
}

}  // namespace
}  // namespace ng
