// scripts/build, with a cmake that builds nothing.
#include <sys/wait.h>

#include <cstdlib>

#include "program.h"

namespace ng::e2e {
namespace {

class BuildScript : public Program {
 protected:
  BuildScript() {
    fs::create_directories(path("scripts"));
    fs::copy(std::string(NG_SOURCE_DIR) + "/scripts/build", path("scripts"));
    write_script("scripts/install-packages", "");
    write_script("scripts/configure", "");
    write_script("cmake", "[ ! -e interrupt ] || kill -INT $PPID");
  }
  void write_script(const std::string& name, const std::string& line) const {
    write_text(path(name), "#!/bin/sh\n" + line + "\n");
    fs::permissions(path(name), fs::perms::owner_all);
  }
  /// What it says, and its exit code.
  [[nodiscard]] Result build() const {
    const std::string command =
        "cd '" + folder_.string() + "' && PATH=.:$PATH scripts/build 2>said";
    const int status = std::system(command.c_str());
    return {.code = WEXITSTATUS(status), .out = "", .err = text_of(path("said"))};
  }
};

TEST_F(BuildScript, ThatWasInterruptedGoesOnWhereItStopped) {
  write_text(path("interrupt"), "");
  const Result first = build();
  EXPECT_EQ(first.code, 130);
  EXPECT_EQ(first.err,
            "narrowgauge: building (a few minutes the first time)\n"
            "narrowgauge: the build is stopped: the next call goes on from there\n");
  EXPECT_FALSE(fs::exists(path("build/release/.up-to-date")));
  fs::remove(path("interrupt"));
  const Result second = build();
  EXPECT_EQ(second.code, 0);
  EXPECT_EQ(second.err, "narrowgauge: building goes on where the last one stopped\n");
  EXPECT_TRUE(fs::exists(path("build/release/.up-to-date")));
  EXPECT_EQ(build().err, "narrowgauge: building (a few minutes the first time)\n");
}

}  // namespace
}  // namespace ng::e2e
