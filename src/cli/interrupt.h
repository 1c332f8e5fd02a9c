// SIGINT, SIGTERM, SIGHUP and SIGUSR1: a command ends at once with 128 + signal, or finishes what
// it must not lose. SIGHUP stays ignored where it is at the start (nohup). SIGUSR1 is what mpirun
// hands on to all ranks without ending them soon after, and what batch systems can send ahead of
// the end of a job's time.
#pragma once

#include <atomic>

namespace ng::cli {

/// From now on a signal ends the process at once, with exit code 128 + signal; half-written
/// files go. A file that grows beyond the limit of its size is a failed write, no signal.
void exit_at_signals();

/// While it lives the first signal only asks to stop, which Ctrl-C at a terminal is told; the
/// second ends the process at once, unless it is SIGHUP.
class StopAtSignals {
 public:
  StopAtSignals();
  ~StopAtSignals();
  StopAtSignals(const StopAtSignals&) = delete;
  StopAtSignals& operator=(const StopAtSignals&) = delete;

  /// Set by the first signal, or by request().
  [[nodiscard]] static const std::atomic<bool>& flag();
  /// Stops without a signal; one that comes then ends the process at once.
  static void request();
  /// 128 + signal after one.
  [[nodiscard]] int exit_code() const;
};

}  // namespace ng::cli
