#include "base/output_file.h"

#include <filesystem>

#include "support/scratch_folder.h"

namespace ng {
namespace {

using OutputFile = ScratchFolder;

TEST_F(OutputFile, IsNoInputByAnyName) {
  make_folders(folder_);
  write_file_atomically(in("a"), "a");
  write_file_atomically(in("b"), "b");
  std::filesystem::create_hard_link(in("a"), in("c"));
  EXPECT_NO_THROW(refuse_input(in("b"), in("a")));
  EXPECT_NO_THROW(refuse_input(in("absent"), in("a")));
  EXPECT_NE(error_of([&] { refuse_input(in("a"), in("a"), "--out"); }).find("is the input"),
            std::string::npos);
  EXPECT_NE(error_of([&] { refuse_input(in("c"), in("a")); }).find("is the same file as"),
            std::string::npos);
  EXPECT_NE(error_of([&] { refuse_files_of(folder_, in("./b")); }), "accepted");
  EXPECT_NO_THROW(refuse_files_of(folder_, in("absent")));
}

}  // namespace
}  // namespace ng
