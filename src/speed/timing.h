// How long short work takes.
#pragma once

#include <chrono>

namespace ng {

/// Seconds of one call of `work`, which is repeated for at least `least_seconds`; 0: called once.
template <class Work>
[[nodiscard]] double seconds_per_call(const Work& work, double least_seconds) {
  const auto start = std::chrono::steady_clock::now();
  int calls = 0;
  double seconds = 0;
  do {
    work();
    ++calls;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  } while (seconds < least_seconds);
  return seconds / calls;
}

/// The same where `work` is only begun by its call, and `finish` returns when all that was begun is
/// done: it is called seldom.
template <class Work, class Finish>
[[nodiscard]] double seconds_per_call(const Work& work, double least_seconds,
                                      const Finish& finish) {
  finish();
  for (int calls = 1;; calls *= 2) {
    const double seconds = seconds_per_call(
        [&] {
          for (int call = 0; call < calls; ++call) work();
          finish();
        },
        0);
    if (seconds >= least_seconds) return seconds / calls;
  }
}

}  // namespace ng
