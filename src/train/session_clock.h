// Throughput of a session: a moving average over about 20 steps, and time left at that pace.
#pragma once

#include <chrono>

namespace ng {

struct SessionClock {
  using Steady = std::chrono::steady_clock;
  Steady::time_point start = Steady::now();
  Steady::time_point last = start;
  double seconds_per_step = 0;

  void tick() {
    const Steady::time_point now = Steady::now();
    const double step = std::chrono::duration<double>(now - last).count();
    seconds_per_step =
        seconds_per_step == 0 ? step : seconds_per_step + 0.05 * (step - seconds_per_step);
    last = now;
  }
  /// What happens between steps is not time for a step.
  void leave_out() { last = Steady::now(); }
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(last - start).count();
  }
};

}  // namespace ng
