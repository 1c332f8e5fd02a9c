#include "base/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

extern char** environ;

namespace ng {
namespace {

[[noreturn]] void fail(const std::string& program, const std::string& problem) {
  throw Error({.place = program, .problem = problem});
}

/// Starts the command with its output going to `output`; 0 or an errno.
int start(const std::vector<std::string>& command, int output, pid_t* child) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addchdir_np(&actions, "/");
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  const int error =
      ::posix_spawnp(child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Everything up to the end of a pipe, but no more than `max_bytes` + 1.
std::string read_all(int pipe, size_t max_bytes) {
  std::string text;
  char chunk[1 << 16];
  while (text.size() <= max_bytes) {
    const ssize_t got = ::read(pipe, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(chunk, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& command, size_t max_bytes) {
  NG_CHECK(!command.empty());
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) < 0) fail(command[0], std::generic_category().message(errno));
  pid_t child = 0;
  const int error = start(command, ends[1], &child);
  ::close(ends[1]);
  ProgramResult result;
  if (error != 0) {
    ::close(ends[0]);
    if (error == ENOENT || error == EACCES) return result;
    fail(command[0], "cannot start: " + std::generic_category().message(error));
  }
  result.found = true;
  result.output = read_all(ends[0], max_bytes);
  ::close(ends[0]);  // a program that prints too much gets SIGPIPE
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (result.output.size() > max_bytes) {
    fail(command[0], fmt::format("printed more than {} bytes", max_bytes));
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace ng
