// Notices that the other ranks do not come. MPI notices a rank that has died, but not one that is
// stopped, or a link that is cut: who waits for it waits for ever. [distributed.md §6]
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "comm/comm.h"

namespace ng {

class Watchdog {
 public:
  /// Calls `late` once, in a thread of its own, when a primitive of `comm` has not returned for
  /// `limit`: "rank 1 of 4 has waited 60 s in all_to_all, in step 12". Time in which this process
  /// was stopped itself does not count. `comm` outlives it.
  Watchdog(const Comm& comm, std::chrono::milliseconds limit,
           std::function<void(const std::string& where)> late);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();

  const Comm& comm_;
  std::chrono::milliseconds limit_;
  std::function<void(const std::string&)> late_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ng
