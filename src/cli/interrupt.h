// SIGINT and SIGTERM: a command ends at once with 128 + signal, or finishes what it must not lose.
#pragma once

#include <atomic>

namespace ng::cli {

/// From now on a signal ends the process at once, with exit code 130 or 143; half-written files go.
void exit_at_signals();

/// While it lives the first signal only asks to stop; the second ends the process at once.
class StopAtSignals {
 public:
  StopAtSignals();
  ~StopAtSignals();
  StopAtSignals(const StopAtSignals&) = delete;
  StopAtSignals& operator=(const StopAtSignals&) = delete;

  /// Set by the first signal.
  [[nodiscard]] const std::atomic<bool>& flag() const;
  /// 130 or 143 after a signal.
  [[nodiscard]] int exit_code() const;
};

}  // namespace ng::cli
