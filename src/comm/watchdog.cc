#include "comm/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ng {

Watchdog::Watchdog(const Comm& comm, std::chrono::milliseconds limit,
                   std::function<void(const std::string&)> late)
    : comm_(comm), limit_(limit), late_(std::move(late)), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Watchdog::watch() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  Clock::time_point looked = Clock::now(), awake_since = looked;
  while (!ended_.wait_for(lock, limit_ / 10, [&] { return ends_; })) {
    const Clock::time_point now = Clock::now();
    if (now - std::exchange(looked, now) > limit_ / 2) awake_since = now;
    const Comm::Waiting waiting = comm_.waiting();
    if (waiting.primitive == nullptr || std::min(waiting.time, now - awake_since) < limit_)
      continue;
    const std::string step = waiting.step < 0 ? std::string("before the first step")
                                              : fmt::format("in step {}", waiting.step + 1);
    late_(fmt::format("rank {} of {} has waited {:.0f} s in {}, {}", comm_.rank(), comm_.ranks(),
                      std::chrono::duration<double>(waiting.time).count(), waiting.primitive,
                      step));
    return;
  }
}

}  // namespace ng
