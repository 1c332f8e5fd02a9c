// A program that is started, waited for, and never outlives who started it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ng::cli {

/// The exit code of a program that could not be started, as shells say it.
inline constexpr int kNotStarted = 127;

/// A running program in a process group of its own, so that a Ctrl-C at the terminal does not reach
/// it. Linux sends it SIGTERM when this process ends, however that happens.
class Child {
 public:
  /// What it prints: shown, its standard error after we have looked at it; or dropped.
  enum class Output { shown, dropped };
  /// Starts command[0], found along PATH or from where we are, without input. Throws Error where no
  /// process can be made.
  Child(const std::vector<std::string>& command, Output output);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  struct End {
    int code = 0;             ///< exit code, 128 + signal
    bool was_killed = false;  ///< by that signal
  };
  /// Waits for its end, but no longer than `most`. Call it often: it carries what is printed.
  [[nodiscard]] std::optional<End> wait(std::chrono::milliseconds most);
  void send(int signal) const;
  /// When it printed the first line of an error of this program's, as one of its ranks.
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> said() const { return said_; }

 private:
  void carry(std::chrono::milliseconds most);
  void look_at(std::string_view printed);

  pid_t pid_ = -1;
  int errors_ = -1;   ///< read end of its standard error; -1: dropped, or at its end
  std::string line_;  ///< of its standard error, as far as it came
  std::optional<std::chrono::steady_clock::time_point> said_;
};

/// From now on what our children leave behind becomes our children.
void adopt_orphans();
/// Kills all our children, and theirs, and waits for their ends.
void end_children();

}  // namespace ng::cli
