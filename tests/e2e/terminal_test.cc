// On a terminal the progress line refreshes in place and never wraps.
#include <sys/ioctl.h>
#include <termios.h>
#include <algorithm>

#include "program.h"

namespace ng::e2e {
namespace {

using Terminal = Program;

constexpr int kColumns = 60;

// What the program shows on a terminal of kColumns columns.
std::string shown(const std::vector<std::string>& args, const fs::path& folder) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_EQ(::grantpt(terminal) | ::unlockpt(terminal), 0);
  const std::string name = ::ptsname(terminal);
  const int other_side = ::open(name.c_str(), O_RDWR | O_NOCTTY);
  termios plain{};
  ::tcgetattr(other_side, &plain);
  ::cfmakeraw(&plain);
  ::tcsetattr(other_side, TCSANOW, &plain);
  winsize size{};
  size.ws_col = kColumns;
  ::ioctl(other_side, TIOCSWINSZ, &size);
  Process process(args, folder, name);
  ::close(other_side);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 1; count > 0;) {
    count = ::read(terminal, buffer, sizeof buffer);
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
  }
  EXPECT_EQ(process.wait().code, 0);
  ::close(terminal);
  return text;
}

TEST_F(Terminal, ProgressRefreshesOneLineThatFits) {
  const std::string text = shown({"train", "tiny.toml", "--set", "train.steps=40"}, folder_);
  const size_t begin = text.find("\rstep ");
  ASSERT_NE(begin, std::string::npos) << text;
  const size_t end = text.find("\n\n", begin);
  size_t refreshed = 0;
  for (size_t at = begin; at != std::string::npos && at < end; at = text.find('\r', at + 1)) {
    ++refreshed;
    const size_t stop = text.find_first_of("\r\n", at + 1);
    if (text[stop] == '\n') continue;  // that line stays
    const std::string line = text.substr(at, stop - at);
    EXPECT_LE(line.size(), size_t{kColumns}) << line;
    EXPECT_NE(line.find(" left"), std::string::npos) << line;
  }
  EXPECT_GE(refreshed, 2u) << "the first step and the last";
  EXPECT_NE(text.find("validation loss"), std::string::npos);
}

}  // namespace
}  // namespace ng::e2e
