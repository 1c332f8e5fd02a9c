#include "cli/interrupt.h"

#include <unistd.h>
#include <csignal>

#include "base/files.h"

namespace ng::cli {
namespace {

// A handler reaches nothing but globals.
std::atomic<bool> stop_requested = false;
std::atomic<int> signal_number = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void exit_now(int signal) {
  unlink_temporaries();
  ::_exit(128 + signal);
}

void request_stop(int signal) {
  const bool is_first = !stop_requested.exchange(true);
  if (is_first) signal_number = signal;
  // A closed terminal sends SIGHUP twice, itself and by the shell: no second wish to stop.
  if (!is_first && signal != SIGHUP) exit_now(signal);
}

void handle(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
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
  handle(request_stop);
}
StopAtSignals::~StopAtSignals() { handle(exit_now); }

const std::atomic<bool>& StopAtSignals::flag() const { return stop_requested; }
int StopAtSignals::exit_code() const { return 128 + signal_number; }

}  // namespace ng::cli
