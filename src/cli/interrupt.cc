#include "cli/interrupt.h"

#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/files.h"

namespace ng::cli {
namespace {

// A handler reaches nothing but globals.
std::atomic<bool> stop_requested = false;
std::atomic<int> signal_number = 0;
std::atomic<bool> has_terminal = false;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void exit_now(int signal) {
  unlink_temporaries();
  ::_exit(128 + signal);
}

// A step may take a minute: whoever pressed Ctrl-C shall know that it was heard.
void say_stopping() {
  constexpr std::string_view kSentence =
      "\nnarrowgauge: stopping after this step; a second Ctrl-C ends at once\n";
  const int error = errno;  // of what was interrupted
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
  errno = error;
}

void request_stop(int signal) {
  const bool is_first = !stop_requested.exchange(true);
  if (is_first) signal_number = signal;
  if (is_first && signal == SIGINT && has_terminal) say_stopping();
  // A closed terminal sends SIGHUP twice, itself and by the shell: no second wish to stop.
  if (!is_first && signal != SIGHUP) exit_now(signal);
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGUSR1, &action, nullptr);
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

}  // namespace

void exit_at_signals() {
  handle(exit_now);
  ::signal(SIGXFSZ, SIG_IGN);  // write() then fails with EFBIG
}

StopAtSignals::StopAtSignals() {
  stop_requested = false;
  has_terminal = ::isatty(STDERR_FILENO) == 1;
  handle(request_stop);
}
StopAtSignals::~StopAtSignals() { handle(exit_now); }

const std::atomic<bool>& StopAtSignals::flag() { return stop_requested; }
void StopAtSignals::request() { stop_requested = true; }
int StopAtSignals::exit_code() const {
  return 128 + (signal_number != 0 ? signal_number.load() : SIGTERM);  // another rank had one
}

}  // namespace ng::cli
