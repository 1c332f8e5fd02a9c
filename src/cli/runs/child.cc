#include "cli/runs/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/files.h"
#include "cli/output.h"

namespace ng::cli {
namespace {

using std::chrono::milliseconds;

constexpr size_t kLongestLine = 1 << 16;

[[noreturn]] void fail(const std::string& what) {
  refuse(what, std::generic_category().message(errno), "");
}

/// In the child: `errors` becomes standard error, or with the output goes nowhere where it is -1.
[[noreturn]] void become(char** words, pid_t parent, int errors) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kNotStarted);  // it was too late for that
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  if (errors < 0) ::dup2(nothing, STDOUT_FILENO);
  ::dup2(errors < 0 ? nothing : errors, STDERR_FILENO);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvp(words[0], words);
  ::_exit(kNotStarted);
}

/// Whether a line is an error of the program's, no note.
bool is_failure(std::string_view line) {
  return line.starts_with("narrowgauge: ") && !line.starts_with("narrowgauge: note: ");
}

/// The parent of a process; none where it is gone.
std::optional<pid_t> parent_of(const std::string& process) {
  const int file = ::open(("/proc/" + process + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[512];
  const ssize_t got = ::read(file, text, sizeof text);
  ::close(file);
  // "12 (name) S 1 ...", and a name may hold anything.
  const std::string_view stat(text, got < 0 ? 0 : static_cast<size_t>(got));
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 4 > stat.size()) return {};
  pid_t parent = 0;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

void kill_children() {
  for (const std::string& name : list_folder("/proc"))
    if (name.find_first_not_of("0123456789") == std::string::npos && parent_of(name) == ::getpid())
      ::kill(static_cast<pid_t>(std::stol(name)), SIGKILL);
}

}  // namespace

Child::Child(const std::vector<std::string>& command, Output output) {
  NG_CHECK(!command.empty());
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  int ends[2] = {-1, -1};
  if (output == Output::shown && ::pipe2(ends, O_CLOEXEC) < 0) fail("a pipe");
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(words.data(), parent, ends[1]);
  if (ends[1] >= 0) ::close(ends[1]);
  errors_ = ends[0];
  if (pid_ < 0) fail(command.front());
}

Child::~Child() {
  if (errors_ >= 0) ::close(errors_);
  if (pid_ <= 0) return;
  send(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::send(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

void Child::look_at(std::string_view printed) {
  for (const char c : printed) {
    if (c != '\n') {
      if (line_.size() < kLongestLine) line_ += c;
      continue;
    }
    if (!said_ && is_failure(line_)) said_ = std::chrono::steady_clock::now();
    line_.clear();
  }
}

// Shows what comes on standard error until nothing has come for so long.
void Child::carry(milliseconds most) {
  if (errors_ < 0) return std::this_thread::sleep_for(most);
  pollfd ready = {errors_, POLLIN, 0};
  if (::poll(&ready, 1, static_cast<int>(most.count())) <= 0) return;
  char bytes[4096];
  const ssize_t got = ::read(errors_, bytes, sizeof bytes);
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    ::close(std::exchange(errors_, -1));
    return;
  }
  const std::string_view printed(bytes, static_cast<size_t>(got));
  look_at(printed);
  write_error(printed);
}

std::optional<Child::End> Child::wait(milliseconds most) {
  carry(most);
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return {};
  pid_ = -1;
  for (pollfd left = {errors_, POLLIN, 0}; errors_ >= 0 && ::poll(&left, 1, 0) > 0;)
    carry(milliseconds(0));
  if (WIFEXITED(status)) return End{.code = WEXITSTATUS(status)};
  return End{.code = kSignal + WTERMSIG(status), .was_killed = true};
}

void adopt_orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }

// A process that the kernel does not let go of is not waited for.
void end_children() {
  for (int tries = 0; tries < 500; ++tries) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return;  // there is none
    if (ended > 0) continue;
    kill_children();
    std::this_thread::sleep_for(milliseconds(10));
  }
}

}  // namespace ng::cli
