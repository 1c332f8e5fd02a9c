// Waiting for what gives no sign when it is done, without taking a core that others compute on.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace ng {

/// Looks until `is_done`; sleeps between looks, the longer the longer it takes.
template <class IsDone>
void wait_until(const IsDone& is_done) {
  constexpr std::chrono::microseconds kFirst{10}, kLongest{200};
  for (auto pause = kFirst; !is_done(); pause = std::min(2 * pause, kLongest))
    std::this_thread::sleep_for(pause);
}

}  // namespace ng
